// C = relu(A B + bias), row-major float32: A is m x k, B is k x n, bias has n elements, C is m x n. CUDA.
//
// Cost: 2 m n k + 2 m n FLOP; each array crosses memory at least once: 4 (m k + k n + n + m n) bytes. A product
// and two operations behind it move 16 m n bytes more.
// Versions:
//   1  the blocks of matmul.cu (../matmul/float32_block.h), whose threads add and clamp before they store
// Sums are in float32, along k in order; NaN stays NaN.
// One PTX from sm_80 on (CMakeLists.txt): newer GPUs can do nothing more that is used here.
#include "../matmul/float32_block.h"
#include "bias_relu.h"

KV_FLOAT32_KERNELS(kv_matmul_bias_relu, kv::BiasRelu<float>)

extern "C" KV_API int kv_matmul_bias_relu_cuda(const float* a, const float* b, const float* bias, float* c,
                                               int64_t m, int64_t n, int64_t k, int device, void* stream) {
    if (m > 0 && n > 0 && k >= 0 && !bias) return KV_ERROR_POINTER;
    const kv::BiasRelu<float> epilogue = {bias, n};
    return kv::multiply_float32(kv_matmul_bias_relu, a, b, c, m, n, k, epilogue, device, stream);
}
