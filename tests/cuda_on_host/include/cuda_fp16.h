// Stands in for the CUDA toolkit's header of this name: what our kernels use of it.
#ifndef CUDA_ON_HOST_CUDA_FP16_H
#define CUDA_ON_HOST_CUDA_FP16_H

#include "cuda_runtime.h"

struct __half {
    _Float16 value;
};
struct __attribute__((aligned(4))) __half2 {
    __half x, y;
};
using half = __half;
using half2 = __half2;

static inline float __half2float(__half x) { return static_cast<float>(x.value); }
static inline __half __float2half_rn(float x) { return {static_cast<_Float16>(x)}; }
static inline __half __float2half(float x) { return __float2half_rn(x); }
static inline float2 __half22float2(__half2 x) { return {__half2float(x.x), __half2float(x.y)}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
static inline __half2 __float22half2_rn(float2 x) { return __floats2half2_rn(x.x, x.y); }
static inline unsigned short __half_as_ushort(__half x) { return cuda_on_host::bits_as<unsigned short>(x); }
static inline __half __ushort_as_half(unsigned short x) { return cuda_on_host::bits_as<__half>(x); }

#endif  // CUDA_ON_HOST_CUDA_FP16_H
