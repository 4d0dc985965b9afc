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

extern "C" __global__ void __launch_bounds__(kv::THREADS, 2)
    kv_matmul_bias_relu_128_vector(const float* a, const float* b, const float* bias, float* c, int64_t m,
                                   int64_t n, int64_t k, bool outgrows) {
    kv::Block<128, 8, 8, true, kv::BiasRelu<float>>::run(a, b, c, m, n, k, outgrows, {bias, n});
}

extern "C" __global__ void __launch_bounds__(kv::THREADS, 2)
    kv_matmul_bias_relu_128_scalar(const float* a, const float* b, const float* bias, float* c, int64_t m,
                                   int64_t n, int64_t k, bool outgrows) {
    kv::Block<128, 8, 8, false, kv::BiasRelu<float>>::run(a, b, c, m, n, k, outgrows, {bias, n});
}

extern "C" __global__ void __launch_bounds__(kv::THREADS, 4)
    kv_matmul_bias_relu_64_vector(const float* a, const float* b, const float* bias, float* c, int64_t m,
                                  int64_t n, int64_t k, bool outgrows) {
    kv::Block<64, 16, 4, true, kv::BiasRelu<float>>::run(a, b, c, m, n, k, outgrows, {bias, n});
}

extern "C" __global__ void __launch_bounds__(kv::THREADS, 4)
    kv_matmul_bias_relu_64_scalar(const float* a, const float* b, const float* bias, float* c, int64_t m,
                                  int64_t n, int64_t k, bool outgrows) {
    kv::Block<64, 16, 4, false, kv::BiasRelu<float>>::run(a, b, c, m, n, k, outgrows, {bias, n});
}

extern "C" KV_API int kv_matmul_bias_relu_cuda(const float* a, const float* b, const float* bias, float* c,
                                               int64_t m, int64_t n, int64_t k, int device, void* stream) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if (m == 0 || n == 0) return KV_OK;
    if ((k > 0 && (!a || !b)) || !bias || !c) return KV_ERROR_POINTER;
    bool large = false;
    const cudaError_t error = kv::prefer_large(kv::Tiles(m, n, 128), device, &large);
    if (error != cudaSuccess) return kv::failed(error);
    const bool vector = n % 4 == 0 && kv::is_aligned(b, 16) && kv::is_aligned(c, 16);
    auto* const kernel = large ? (vector ? kv_matmul_bias_relu_128_vector : kv_matmul_bias_relu_128_scalar)
                               : (vector ? kv_matmul_bias_relu_64_vector : kv_matmul_bias_relu_64_scalar);
    const bool outgrows = kv::outgrows_cache(m * n * static_cast<int64_t>(sizeof(float)), device);
    const unsigned blocks = kv::blocks_for(kv::Tiles(m, n, large ? 128 : 64));
    return kv::on_device(device, [=] {
        kernel<<<blocks, kv::THREADS, 0, static_cast<cudaStream_t>(stream)>>>(a, b, bias, c, m, n, k,
                                                                              outgrows);
    });
}
