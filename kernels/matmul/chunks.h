// Chunks of 16 bytes: how matrices of small items come to the tensor cores (matmul_tensor.cu).
#ifndef KV_MATMUL_CHUNKS_H
#define KV_MATMUL_CHUNKS_H

#include <cuda_runtime.h>
#include <stdint.h>

#include <type_traits>

namespace kv {

constexpr int CHUNK = 16;  // bytes that one asynchronous copy takes, and a row of a matrix of warp_mma.h

// ROWS rows of COUNT chunks in shared memory, and one of padding behind each: with an odd number of chunks to
// a row, eight chunks below each other, which are read at once, lie in different banks.
template <int ROWS, int COUNT>
struct Layout {
    static_assert(COUNT % 2 == 0, "with the padding an odd number");
    static constexpr int SIZE = ROWS * (COUNT + 1) * CHUNK;  // bytes
    static __device__ int at(int row, int chunk) { return (row * (COUNT + 1) + chunk) * CHUNK; }
};

// SIZE neighbouring bytes of one row, as words; zeros from the item `inside` on. VECTOR promises alignment to
// SIZE, and that all are inside or none.
template <int SIZE, bool VECTOR, class T>
__device__ void fetch(uint32_t (&words)[SIZE / 4], const T* from, int64_t inside) {
    if constexpr (VECTOR) {
        using Vector = std::conditional_t<SIZE == 16, uint4, uint2>;
        *reinterpret_cast<Vector*>(words) = inside > 0 ? *reinterpret_cast<const Vector*>(from) : Vector{};
    } else {
        using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>;
        constexpr int PER = 4 / sizeof(T);  // items of a word
#pragma unroll
        for (int i = 0; i < SIZE / 4; ++i) {
            words[i] = 0;
#pragma unroll
            for (int j = 0; j < PER; ++j)
                if (i * PER + j < inside)
                    words[i] |= uint32_t{reinterpret_cast<const Bits*>(from)[i * PER + j]} << j * (32 / PER);
        }
    }
}

// Four rows of four bytes become four columns.
__device__ inline void transpose(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
    const uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);  // bytes 0 and 1 of each
    const uint32_t ab_high = __byte_perm(a, b, 0x7362), cd_high = __byte_perm(c, d, 0x7362);
    a = __byte_perm(ab, cd, 0x5410);
    b = __byte_perm(ab, cd, 0x7632);
    c = __byte_perm(ab_high, cd_high, 0x5410);
    d = __byte_perm(ab_high, cd_high, 0x7632);
}

}  // namespace kv

#endif  // KV_MATMUL_CHUNKS_H
