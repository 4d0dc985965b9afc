// Stands in for the CUDA toolkit's header of this name: what our kernels use of it.
#ifndef CUDA_ON_HOST_CUDA_BF16_H
#define CUDA_ON_HOST_CUDA_BF16_H

#include "cuda_runtime.h"

struct __nv_bfloat16 {
    unsigned short bits;  // the upper half of a float
};
struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 x) { return __uint_as_float(unsigned{x.bits} << 16); }

// To the nearest, halves to even; NaN becomes CUDA's NaN.
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    const unsigned bits = __float_as_uint(x), nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    return {static_cast<unsigned short>(isnan(x) ? 0x7fffu : nearest >> 16)};
}
static inline __nv_bfloat16 __float2bfloat16(float x) { return __float2bfloat16_rn(x); }
static inline float2 __bfloat1622float2(__nv_bfloat162 x) {
    return {__bfloat162float(x.x), __bfloat162float(x.y)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 x) { return __floats2bfloat162_rn(x.x, x.y); }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return {x}; }

#endif  // CUDA_ON_HOST_CUDA_BF16_H
