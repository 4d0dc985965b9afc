// What matmul_bias_relu does to each sum of a product, on CUDA.
#ifndef KV_MATMUL_BIAS_RELU_H
#define KV_MATMUL_BIAS_RELU_H

#include <stdint.h>

#include "../_native/kv_cuda_half.h"

namespace kv {

// NaN stays NaN.
template <class Item>
struct BiasRelu {
    const Item* bias;
    int64_t n;

    __device__ float of_column(int64_t column) const { return column < n ? number(bias[column]) : 0.0f; }
    __device__ float operator()(float sum, float of_column) const {
        const float value = sum + of_column;
        return value < 0.0f ? 0.0f : value;
    }
};

}  // namespace kv

#endif  // KV_MATMUL_BIAS_RELU_H
