// C = relu(A B + bias), row-major, on the tensor cores: float16 and bfloat16. A is m x k, B is k x n, bias has n elements,
// C is m x n. CUDA, compute capability 8.0 or higher.
//
// Cost: 2 m n k + 2 m n FLOP; each array crosses memory at least once: 2 (m k + k n + n + m n) bytes. A product
// and two operations behind it move 8 m n bytes more.
// Versions:
//   1  the blocks of matmul_tensor.cu (../matmul/tensor_block.h) and, on Hopper, tiles of matmul_hopper.cu, which add
//      and clamp before they round and store
// The sum is in float32, and so are bias and what is added; C is rounded once. NaN stays NaN.
// One PTX from sm_80 on (CMakeLists.txt): newer GPUs can do nothing more that is used here.
#include "../matmul/tensor_block.h"
#include "bias_relu.h"

#define KV_TENSOR_BIAS_RELU(DTYPE, T)                                                                        \
    KV_TENSOR_KERNELS(kv_matmul_bias_relu_##DTYPE, T, kv::BiasRelu<T>)                                       \
    extern "C" KV_API int kv_matmul_bias_relu_##DTYPE##_cuda(const T* a, const T* b, const T* bias, T* c,    \
                                                             int64_t m, int64_t n, int64_t k, int device,    \
                                                             void* stream) {                                 \
        if (m > 0 && n > 0 && k >= 0 && !bias) return KV_ERROR_POINTER;                                      \
        const kv::BiasRelu<T> epilogue = {bias, n};                                                          \
        return kv::multiply_on_tensor_cores(kv_matmul_bias_relu_##DTYPE, a, b, c, m, n, k, epilogue, device, \
                                            stream);                                                         \
    }

KV_TENSOR_BIAS_RELU(float16, kv::Float16)
KV_TENSOR_BIAS_RELU(bfloat16, kv::Bfloat16)
