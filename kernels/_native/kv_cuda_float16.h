// float16 and bfloat16 in CUDA kernels: read exactly, written rounded to the nearest, halves to even. NaN becomes
// a NaN.
// Note: cuda_fp16.h and cuda_bf16.h have the same and were used. A file that includes them takes 0.8 s of the
// processor's time longer to compile (nvcc 13.0, two architectures).
#ifndef KV_CUDA_FLOAT16_H
#define KV_CUDA_FLOAT16_H

#include <stdint.h>

namespace kv {

// As they lie in memory. Their bits are no numbers: only number(), round_to() and tensor cores know what they mean.
struct Float16 {  // IEEE 754 binary16
    uint16_t bits;
};
struct Bfloat16 {  // the upper half of a float
    uint16_t bits;
};
struct Float8 {  // four bits of exponent, three of fraction: float8_e4m3fn
    uint8_t bits;
};

static __device__ inline float number(Float16 item) {
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(item.bits));
    return number;
}
// Note: sm_90 has cvt.f32.bf16, of which ptxas 13.0 makes more instructions: of quantize_int8_rows for 16 bytes at a
// time 1856 instead of 1760.
static __device__ inline float number(Bfloat16 item) {
    float number;
    asm("mov.b32 %0, {0, %1};" : "=f"(number) : "h"(item.bits));
    return number;
}

static __device__ inline void round_to(Float16& item, float number) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(item.bits) : "f"(number));
}
static __device__ inline void round_to(Bfloat16& item, float number) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800  // has no instruction for it
    const uint32_t bits = __float_as_uint(number), nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    item.bits = static_cast<uint16_t>(isnan(number) ? 0x7fffu : nearest >> 16);
#else
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(item.bits) : "f"(number));
#endif
}

}  // namespace kv

#endif  // KV_CUDA_FLOAT16_H
