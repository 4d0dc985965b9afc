// C = A B, row-major, on the tensor cores: float16 and bfloat16 (sums in float32, C in the inputs' type), and
// int8 (sums and C in int32). A is m x k, B is k x n, C is m x n. CUDA, compute capability 8.0 or higher.
//
// Cost: 2 m n k operations; each matrix crosses memory at least once: s (m k + k n) + t m n bytes, s of an
// item of A and B, t of C.
// Versions:
//   1  128 x 128 tiles by four warps of 64 x 64 elements each: for 32 bytes of k a warp loads 8 times 4
//      matrices (warp_mma.h) and multiplies 32 times. Asynchronous copies to shared memory run three passes
//      ahead. 64 x 64 tiles (32 x 32 per warp) where the larger ones would leave most of the GPU idle.
//   2  copies that are zeros beyond the matrix, instead of branches around them (copy_async.h)
//   3  four elements of C by one store, not by four
//   4  no conflicts in writes to shared memory, too (chunks.h), and whole sectors of B where it is transposed
//   5  tiles of 64 also where the last round of those of 128 would leave most of the GPU idle (prefer_large)
//   6  C is the first to leave the caches only where the second-level cache cannot hold it
// Products are exact; their sums are in the order and with the rounding of the tensor cores. Sums of int8
// wrap around beyond int32, which takes k of more than 131071.
// One PTX from sm_80 on (CMakeLists.txt): newer GPUs can do nothing more that is used here.
#include "tensor_block.h"

#define KV_TENSOR_MATMUL(DTYPE, T)                                                                    \
    KV_TENSOR_KERNELS(kv_matmul_##DTYPE, T, kv::Plain)                                                \
    extern "C" KV_API int kv_matmul_##DTYPE##_cuda(const T* a, const T* b, kv::Product<T>::Item* c,   \
                                                   int64_t m, int64_t n, int64_t k, int device,       \
                                                   void* stream) {                                    \
        return kv::multiply_on_tensor_cores(kv_matmul_##DTYPE, a, b, c, m, n, k, kv::Plain{}, device, \
                                            stream);                                                  \
    }

KV_TENSOR_MATMUL(float16, kv::Float16)
KV_TENSOR_MATMUL(bfloat16, kv::Bfloat16)
KV_TENSOR_MATMUL(int8, int8_t)

// On Hopper alone, by what TMA can read: mma.sync multiplies it from compute capability 8.9 on.
extern "C" KV_API int kv_matmul_float8_e4m3fn_cuda(const kv::Float8* a, const kv::Float8* b, float* c,
                                                   int64_t m, int64_t n, int64_t k, int device,
                                                   void* stream) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if (m == 0 || n == 0) return KV_OK;
    if ((k > 0 && (!a || !b)) || !c) return KV_ERROR_POINTER;
    int capability = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device);
    if (error != cudaSuccess) return kv::failed(error);
#ifdef KV_SM_90A
    if (capability == 9 && kv::is_for_hopper(a, b, c, m, n, k))
        return kv::multiply_on_hopper(a, b, c, m, n, k, kv::Plain{}, device, stream);
#endif
    return kv::cuda_status(cudaErrorNotSupported);
}
