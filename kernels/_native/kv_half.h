// Numbers of two bytes, computed in vectors of floats: read exactly, written rounded to the nearest, halves
// to even. F16C, AVX-512 and aarch64 have instructions for float16; bfloat16, and float16 with SSE2, are done by
// integers.
#ifndef KV_HALF_H
#define KV_HALF_H

#include "kv_simd.h"

namespace kv {
namespace {

// As they lie in memory. Their bits are no numbers: only read() and write() know what they mean.
struct Float16 {  // IEEE 754 binary16
    uint16_t bits;
};
struct Bfloat16 {  // the upper half of a float
    uint16_t bits;
};

typedef uint16_t Halves __attribute__((vector_size(WIDTH * 2)));

// The lower half of each word, whose upper half is 0. GCC 12 takes vectors apart without the intrinsics.
inline Halves lower_halves(Words words) {
#if defined(__AVX512F__)
    return reinterpret_cast<Halves>(_mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(words)));
#elif defined(__AVX2__)
    const __m256i wide = reinterpret_cast<__m256i>(words);
    const __m256i ordered = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    return reinterpret_cast<Halves>(_mm256_castsi256_si128(ordered));
#elif defined(__SSE2__) && !defined(__AVX__)
    // Packing saturates signed numbers, so they are made signed first: the sign is in bit 15.
    const __m128i wide = _mm_srai_epi32(_mm_slli_epi32(reinterpret_cast<__m128i>(words), 16), 16);
    const __m128i packed = _mm_packs_epi32(wide, wide);
    return load<Halves>(&packed);
#elif defined(__aarch64__)
    return vmovn_u32(words);
#else
    return __builtin_convertvector(words, Halves);
#endif
}

inline Words widened(Halves halves) {  // GCC 12 takes a vector that was loaded apart, as above
#if defined(__AVX512F__)
    return reinterpret_cast<Words>(_mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(halves)));
#elif defined(__AVX2__)
    return reinterpret_cast<Words>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(halves)));
#elif defined(__aarch64__)
    return vmovl_u16(halves);
#else
    return __builtin_convertvector(halves, Words);
#endif
}

inline Floats read(const Float16* from) {
    const Halves halves = load<Halves>(from);
#if defined(__AVX512F__)
    return _mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(halves));
#elif defined(__F16C__)
    return _mm256_cvtph_ps(reinterpret_cast<__m128i>(halves));
#elif defined(__aarch64__)
    return vcvt_f32_f16(vreinterpret_f16_u16(halves));
#else
    const Words words = widened(halves);
    // Moved to a float's place its exponent is 112 too small. The product mends that, also of subnormal
    // numbers.
    const Floats size = reinterpret_cast<Floats>((words & 0x7fffu) << 13) * 0x1p112f;
    const Words is_special = reinterpret_cast<Words>((words & 0x7c00u) == 0x7c00u);  // infinite or NaN
    return reinterpret_cast<Floats>(reinterpret_cast<Words>(size) | (is_special & 0x7f800000u) |
                                    (words & 0x8000u) << 16);
#endif
}

template <class Stores = Cached>
inline void write(Float16* to, Floats numbers) {
#if defined(__AVX512F__)
    Stores::put(to, _mm512_maskz_cvtps_ph(0xffff, numbers, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    Stores::put(to, _mm256_cvtps_ph(numbers, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
    Stores::put(to, vcvt_f16_f32(numbers));
#else
    const Words bits = reinterpret_cast<Words>(numbers), sign = bits & 0x80000000u, size = bits ^ sign;
    // Below 2^-14 the unit is 2^-24: that is the last bit of a number beside .5. From 65520 on the carry
    // makes infinity.
    const Words small = reinterpret_cast<Words>(reinterpret_cast<Floats>(size) + 0.5f) - 0x3f000000u;
    const Words normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
    const Ints order = reinterpret_cast<Ints>(size);
    const Words large = order > 0x7f800000 ? Words{} + 0x7e00u : Words{} + 0x7c00u;  // NaN or infinity
    const Words finite = order < 0x38800000 ? small : normal;
    Stores::put(to, lower_halves((order < 0x47800000 ? finite : large) | sign >> 16));
#endif
}

inline Floats read(const Bfloat16* from) {
    return reinterpret_cast<Floats>(widened(load<Halves>(from)) << 16);
}

template <class Stores = Cached>
inline void write(Bfloat16* to, Floats numbers) {
    const Words bits = reinterpret_cast<Words>(numbers);
    const Words nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Words quiet = (bits >> 16) | 0x40u;  // a NaN that rounding must not make infinite
    Stores::put(to, lower_halves(numbers == numbers ? nearest : quiet));
}

}  // namespace
}  // namespace kv

#endif  // KV_HALF_H
