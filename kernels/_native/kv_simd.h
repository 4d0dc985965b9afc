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
typedef int8_t Bytes __attribute__((vector_size(VECTOR_BYTES)));
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

// Asks memory for as many items as these, AHEAD bytes behind them: it takes longer to answer than the core looks
// ahead by itself, and its own prefetchers begin anew with every page. May lie beyond the array.
template <class Item>
inline void fetch(const Item* from, int64_t count) {
    // Bytes. On an AMD Zen 5 6 to 10 KiB are as good as each other in memory, 4 and 14 worse; where the last cache
    // holds the array more are better.
    constexpr uintptr_t LINE = 64, AHEAD = 8192;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(from) + AHEAD;
    for (uintptr_t at = 0; at < count * sizeof(Item); at += LINE)
        __builtin_prefetch(reinterpret_cast<const void*>(begin + at));
}

// A way to write vectors: into the caches, at any address. The other one is in kv_stream.h.
struct Cached {
    template <class Vector>
    static void put(void* to, Vector vector) {
        std::memcpy(to, &vector, sizeof vector);
    }
    static void finish() {}
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

// The lowest byte of each integer of four vectors, in their order. The packing instructions saturate, so that the
// rest is masked first, and work within 16 bytes of a vector, whose fours are then put in order; GCC 12 takes
// integers that were floats apart element by element without the intrinsics.
inline Bytes lowest_bytes(const Ints (&numbers)[4]) {
#if defined(__AVX512BW__)
    const auto byte = [&](int i) { return reinterpret_cast<__m512i>(numbers[i] & 0xff); };
    const __m512i packed =
        _mm512_packus_epi16(_mm512_packus_epi32(byte(0), byte(1)), _mm512_packus_epi32(byte(2), byte(3)));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return reinterpret_cast<Bytes>(_mm512_maskz_permutexvar_epi32(0xffff, order, packed));
#elif defined(__AVX2__)
    const auto byte = [&](int i) { return reinterpret_cast<__m256i>(numbers[i] & 0xff); };
    const __m256i packed =
        _mm256_packus_epi16(_mm256_packus_epi32(byte(0), byte(1)), _mm256_packus_epi32(byte(2), byte(3)));
    return reinterpret_cast<Bytes>(
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
#elif defined(__SSE2__) && !defined(__AVX__)
    const auto byte = [&](int i) { return reinterpret_cast<__m128i>(numbers[i] & 0xff); };
    return reinterpret_cast<Bytes>(
        _mm_packus_epi16(_mm_packs_epi32(byte(0), byte(1)), _mm_packs_epi32(byte(2), byte(3))));
#elif defined(__aarch64__)
    const auto bytes = [&](int i) { return vreinterpretq_u8_s32(numbers[i]); };
    return reinterpret_cast<Bytes>(vuzp1q_u8(vuzp1q_u8(bytes(0), bytes(1)), vuzp1q_u8(bytes(2), bytes(3))));
#else
    typedef int8_t Quarter __attribute__((vector_size(WIDTH)));
    Quarter quarters[4];
    for (int i = 0; i < 4; ++i) quarters[i] = __builtin_convertvector(numbers[i], Quarter);
    return load<Bytes>(quarters);
#endif
}

// x within [low, high]; NaN passes.
inline Floats clamp(Floats x, Floats low, Floats high) { return smaller(high, larger(low, x)); }
inline Floats clamp(Floats x, float low, float high) { return clamp(x, all(low), all(high)); }
inline Doubles clamp(Doubles x, double low, double high) { return smaller(all(high), larger(all(low), x)); }

// Whether any number is larger than another's. GCC makes a vector of AVX-512's masks and tests that.
inline bool any_larger(Ints numbers, Ints others) {
#if defined(__AVX512F__)
    return _mm512_cmpgt_epi32_mask(reinterpret_cast<__m512i>(numbers), reinterpret_cast<__m512i>(others)) !=
           0;
#elif defined(__AVX__)
    return _mm256_movemask_ps(reinterpret_cast<__m256>(numbers > others)) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_ps(reinterpret_cast<__m128>(numbers > others)) != 0;
#else
    const Ints mask = numbers > others;
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
