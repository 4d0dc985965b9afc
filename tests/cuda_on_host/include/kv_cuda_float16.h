// Stands in for kernels/_native/kv_cuda_float16.h, which is instructions of PTX: the same types and functions.
#ifndef CUDA_ON_HOST_KV_CUDA_FLOAT16_H
#define CUDA_ON_HOST_KV_CUDA_FLOAT16_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace kv {

struct Float16 {
    uint16_t bits;
};
struct Bfloat16 {
    uint16_t bits;
};
struct Float8 {
    uint8_t bits;
};

static inline float number(Float16 item) { return __half2float(__ushort_as_half(item.bits)); }
static inline float number(Bfloat16 item) { return __bfloat162float(__ushort_as_bfloat16(item.bits)); }

static inline void round_to(Float16& item, float number) {
    item.bits = __half_as_ushort(__float2half_rn(number));
}
static inline void round_to(Bfloat16& item, float number) {
    item.bits = __bfloat16_as_ushort(__float2bfloat16_rn(number));
}

}  // namespace kv

#endif  // CUDA_ON_HOST_KV_CUDA_FLOAT16_H
