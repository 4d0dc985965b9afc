// Vectors of numbers as wide as the machine's registers, in the vector extension of GCC and Clang: the same
// source for AVX-512, AVX2, SSE2 and NEON. Arithmetic and comparisons work on them element by element; a
// comparison gives all-ones or zeros, and `mask ? a : b` selects. All of it is in an anonymous namespace:
// what is compiled for one instruction set stays in its object (kv_isa.h).
#ifndef KV_SIMD_H
#define KV_SIMD_H

#include <cstdint>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>  // what SSE2 has, in a tenth of the time that GCC takes for the header of all
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace kv {
namespace {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif

constexpr int WIDTH = VECTOR_BYTES / 4;  // floats per vector

typedef float Floats __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t Words __attribute__((vector_size(VECTOR_BYTES)));
typedef int8_t Bytes __attribute__((vector_size(WIDTH)));
typedef double Doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t LongWords __attribute__((vector_size(VECTOR_BYTES)));

// Numbers of type Item that are computed together.
template <class Item>
constexpr int LANES = WIDTH;
template <>
constexpr int LANES<double> = WIDTH / 2;

// Memory may begin at any address.
template <class Vector, class Item>
inline Vector load(const Item* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}

template <class Vector, class Item>
inline void store(Item* to, Vector vector) {
    std::memcpy(to, &vector, sizeof vector);
}

// A way to write vectors: into the caches, at any address. The other one is in kv_stream.h.
struct Cached {
    template <class Vector>
    static void put(void* to, Vector vector) {
        std::memcpy(to, &vector, sizeof vector);
    }
    static void finish() {}
    template <class Item>
    static void fetch(const Item*, int64_t) {}
    template <class Item>
    static int64_t before(const Item*, int64_t) {
        return 0;
    }
};

// LANES<Item> numbers in the vector that they are computed in.
inline Floats read(const float* from) { return load<Floats>(from); }
inline Doubles read(const double* from) { return load<Doubles>(from); }
template <class Stores = Cached>
inline void write(float* to, Floats numbers) {
    Stores::put(to, numbers);
}
template <class Stores = Cached>
inline void write(double* to, Doubles numbers) {
    Stores::put(to, numbers);
}

inline Floats all(float value) { return Floats{} + value; }  // + 0: not for -0
inline Doubles all(double value) { return Doubles{} + value; }

// first > second ? first : second, and the same with <: so second where that is NaN; first never is. Of 0 and
// -0 either. These are one instruction each, but GCC makes a comparison and a blend of them.
inline Floats larger(Floats first, Floats second) {
#if defined(__AVX512F__)
    return _mm512_maskz_max_ps(0xffff, first, second);
#elif defined(__AVX__)
    return _mm256_max_ps(first, second);
#elif defined(__SSE2__)
    return _mm_max_ps(first, second);
#elif defined(__aarch64__)
    return vmaxq_f32(first, second);
#else
    return first > second ? first : second;
#endif
}

inline Doubles larger(Doubles first, Doubles second) {
#if defined(__AVX512F__)
    return _mm512_maskz_max_pd(0xff, first, second);
#elif defined(__AVX__)
    return _mm256_max_pd(first, second);
#elif defined(__SSE2__)
    return _mm_max_pd(first, second);
#elif defined(__aarch64__)
    return vmaxq_f64(first, second);
#else
    return first > second ? first : second;
#endif
}

inline Floats smaller(Floats first, Floats second) {
#if defined(__AVX512F__)
    return _mm512_maskz_min_ps(0xffff, first, second);
#elif defined(__AVX__)
    return _mm256_min_ps(first, second);
#elif defined(__SSE2__)
    return _mm_min_ps(first, second);
#elif defined(__aarch64__)
    return vminq_f32(first, second);
#else
    return first < second ? first : second;
#endif
}

inline Doubles smaller(Doubles first, Doubles second) {
#if defined(__AVX512F__)
    return _mm512_maskz_min_pd(0xff, first, second);
#elif defined(__AVX__)
    return _mm256_min_pd(first, second);
#elif defined(__SSE2__)
    return _mm_min_pd(first, second);
#elif defined(__aarch64__)
    return vminq_f64(first, second);
#else
    return first < second ? first : second;
#endif
}

// The lowest byte of each integer. GCC 12 takes integers that were floats apart element by element without
// the intrinsic.
inline Bytes lowest_bytes(Ints numbers) {
#if defined(__AVX512F__)
    return reinterpret_cast<Bytes>(_mm512_maskz_cvtepi32_epi8(0xffff, reinterpret_cast<__m512i>(numbers)));
#elif defined(__AVX2__)
    const __m256i bytes = reinterpret_cast<__m256i>(numbers & 0xff);
    const __m128i pairs = _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    const __m128i packed = _mm_packus_epi16(pairs, pairs);
    return load<Bytes>(&packed);
#elif defined(__SSE2__) && !defined(__AVX__)
    const __m128i bytes = reinterpret_cast<__m128i>(numbers & 0xff);
    const __m128i pairs = _mm_packs_epi32(bytes, bytes);
    const __m128i packed = _mm_packus_epi16(pairs, pairs);
    return load<Bytes>(&packed);
#elif defined(__aarch64__)
    const uint8x16_t bytes = vreinterpretq_u8_s32(numbers), evens = vuzp1q_u8(bytes, bytes);
    const uint8x16_t packed = vuzp1q_u8(evens, evens);
    return load<Bytes>(&packed);
#else
    return __builtin_convertvector(numbers, Bytes);
#endif
}

// x within [low, high]; NaN passes.
inline Floats clamp(Floats x, float low, float high) { return smaller(all(high), larger(all(low), x)); }
inline Doubles clamp(Doubles x, double low, double high) { return smaller(all(high), larger(all(low), x)); }

// Whether a comparison holds for any element. Its masks are all-ones or zeros, so that their signs say it.
inline bool any(Ints mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask(reinterpret_cast<__m512i>(mask), reinterpret_cast<__m512i>(mask)) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_ps(reinterpret_cast<__m256>(mask)) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_ps(reinterpret_cast<__m128>(mask)) != 0;
#else
    uint64_t words[VECTOR_BYTES / 8], together = 0;
    std::memcpy(words, &mask, sizeof words);
    for (const uint64_t word : words) together |= word;
    return together != 0;
#endif
}

// Adding and subtracting this rounds |x| < 2^22 to an integer, halves to even: at this size a float's last
// bit counts 1.
constexpr float ROUNDER = 0x1.8p23f;
constexpr double ROUNDER_64 = 0x1.8p52;  // |x| < 2^51

}  // namespace
}  // namespace kv

#endif  // KV_SIMD_H
