// x / divisor, to be rounded to an integer, for many x and one divisor: without a division for each where the machine
// multiplies and adds in one rounding.
#ifndef KV_QUOTIENT_H
#define KV_QUOTIENT_H

#include "kv_simd.h"

namespace kv {
namespace {

// Whether quotient() holds for a divisor. Not for NaN.
inline bool is_safe_divisor(float divisor) { return divisor >= 0x1p-64f && divisor <= 0x1p100f; }

// FUSED: whether the machine multiplies and adds in one rounding.
#if defined(__FMA__) || defined(__aarch64__)
constexpr bool FUSED = true;

inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return vfmaq_f32(c, a, b);
#endif
}

// x / divisor, with the reciprocal of a safe divisor rounded to the nearest, for |x| <= 256 divisor: it rounds to the
// same integer as the quotient rounded to the nearest does.
//
// A product with the reciprocal errs by less than two units in the last place. Its remainder times the reciprocal mends
// that but for 2^-24 of it (Markstein, IBM Journal of Research and Development 34, 1990), which matters only where the
// true quotient lies as close to the middle between a tie and its neighbour. All such x and divisors can be counted
// (tests/kernels/test_quantize_int8.py: quotients_closest_to_a_tie); for none of them another integer comes out.
inline Floats quotient(Floats x, Floats divisor, Floats reciprocal) {
    const Floats product = x * reciprocal, remainder = multiply_add(-product, divisor, x);
    return multiply_add(remainder, reciprocal, product);
}
#else
constexpr bool FUSED = false;

inline Floats quotient(Floats x, Floats divisor, Floats) { return x / divisor; }
#endif

}  // namespace
}  // namespace kv

#endif  // KV_QUOTIENT_H
