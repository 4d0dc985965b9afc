// x / divisor, rounded to the nearest, for many x and one divisor: without a division for each.
#ifndef KV_CUDA_QUOTIENT_H
#define KV_CUDA_QUOTIENT_H

namespace kv {

// Whether quotient() holds for a divisor. Not for NaN.
__host__ __device__ inline bool is_safe_divisor(float divisor) {
    return divisor >= 0x1p-64f && divisor <= 0x1p100f;
}

// x / divisor, with the reciprocal of a safe divisor rounded to the nearest, for |x| <= 512 divisor.
//
// A quotient that errs by less than a unit in the last place becomes the quotient rounded to the nearest by
// adding its exact remainder times the reciprocal (Markstein, IBM Journal of Research and Development 34,
// 1990). The product errs by up to two units; a first correction makes it good enough for a second.
// Remainders are exact for |x| >= 2^-100; what is smaller gives less than 2^-35, as it should, but perhaps
// not to the last bit.
static __device__ inline float quotient(float x, float divisor, float reciprocal) {
    float quotient = x * reciprocal;
    quotient = fmaf(fmaf(-quotient, divisor, x), reciprocal, quotient);
    return fmaf(fmaf(-quotient, divisor, x), reciprocal, quotient);
}

}  // namespace kv

#endif  // KV_CUDA_QUOTIENT_H
