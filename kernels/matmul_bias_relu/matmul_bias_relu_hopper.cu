// C = relu(A B + bias), row-major, on Hopper's tensor cores: the tiles of matmul_hopper.cu (../matmul/hopper_tile.h),
// which add and clamp before they round and store. matmul_bias_relu_tensor.cu calls it.
#include "../matmul/hopper_launch.h"
#include "bias_relu.h"

KV_HOPPER_KERNELS(kv_matmul_bias_relu_float16, kv::Float16, kv::BiasRelu<kv::Float16>)
KV_HOPPER_KERNELS(kv_matmul_bias_relu_bfloat16, kv::Bfloat16, kv::BiasRelu<kv::Bfloat16>)
