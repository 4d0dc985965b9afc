// Asynchronous copies to shared memory, of zeros where a matrix has ended. Below compute capability 8.0, which
// has none, they are waited for.
#ifndef KV_MATMUL_COPY_ASYNC_H
#define KV_MATMUL_COPY_ASYNC_H

#include <cuda_pipeline_primitives.h>
#include <stdint.h>

namespace kv {

// Copies BYTES, 4 or 16, from global to shared memory without waiting; where not `inside`, zeros, and nothing
// is read. It belongs to the next __pipeline_commit, as __pipeline_memcpy_async does.
// Note: that function, with a branch to a store of zeros, was tried. ptxas 13.0 then puts three loads from
// shared memory before each copy: for sm_80 206 instructions instead of 150 in the main loop of float16, of
// which 64 multiply.
template <int BYTES>
__device__ inline void copy_or_zero(void* to, const void* from, bool inside) {
    static_assert(BYTES == 4 || BYTES == 16, "what matrices are copied by");
#if __CUDA_ARCH__ < 800
    for (int i = 0; i < BYTES / 4; ++i)
        static_cast<float*>(to)[i] = inside ? static_cast<const float*>(from)[i] : 0.0f;
#else
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    const int bytes = inside ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(bytes)
                     : "memory");
#endif
}

}  // namespace kv

#endif  // KV_MATMUL_COPY_ASYNC_H
