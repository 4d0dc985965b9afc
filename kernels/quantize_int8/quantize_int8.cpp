// out = int8(clamp(round_half_even(x / scale) + zero_point, -128, 127)), float32 -> int8, element by element;
// x may also be float16 or bfloat16, which are made float32 first. CPU.
//
// Exactly the integers of the five float32 operations div, round, add, clamp, cast: a true division (not a
// product with the reciprocal), and the zero point added in float32. NaN gives 0, as PyTorch's cast does on
// x86 CPUs. Cost: 5 FLOP and 5 bytes per element (one read of 4, one write of 1), 3 bytes of the others.
// Versions:
//   1  a plain loop, one element at a time: std::lrint is a call into the C library
//   2  vectors; a product with the reciprocal instead of the division wherever both give the same integer
//   3  the bytes of a vector packed by instructions that do so, with AVX2 and SSE2, too (kv_simd.h: lowest_bytes)
//   4  written around the caches by calls that are larger than the last of them; .83 of the time from 10M
//      elements on
//   5  blocks of 128 elements, where 256 were divided for the sake of one, and one instruction that says
//      whether any is doubtful (kv_simd.h: any): in the caches .97 to 1 of the time with AVX-512 and AVX2,
//      .89 with SSE2, .86 from float16; in memory .96 to .98
//   6  around the caches, the input asked for 10 KiB ahead (kv_stream.h: fetch): .75 to .88 of the time at
//      10M elements, of which the last cache holds a part, .91 at 50M; with SSE2, which computes longer than
//      memory takes, 1.03
//   7  four vectors packed at once, their bytes written by whole vectors: .85 of the time with AVX2 (float16
//      .71), .75 with SSE2; with AVX-512 as before
// Note: tried and rejected, each beside a prefetch 6 KiB ahead: reading from the four quarters of the array
// at once (.91 to .99 of the time, but from places 1 MiB apart 1.4 to 1.8), writing whole lines by one
// instruction or in bursts (the same), a prefetch per page or of every second line (no better than none).
// Reading alone reaches three quarters of what a triad moves here: what mostly reads hardly comes closer to
// that roof.
#include <algorithm>
#include <cstring>

#include "../_native/kv.h"
#include "../_native/kv_half.h"
#include "../_native/kv_isa.h"
#include "../_native/kv_simd.h"
#include "../_native/kv_stream.h"
#include "../_native/kv_threads.h"

namespace {

using kv::Bytes;
using kv::Floats;
using kv::Ints;

constexpr int64_t BLOCK = 128;
constexpr int BYTES = BLOCK / sizeof(Bytes);  // vectors of them

// What is the same for all elements, in every place of a vector.
//
// Both paths clamp the quotient to [-128 - zero_point, 127 - zero_point]: bounds that are integers may as
// well be applied before rounding, and then one clamp does for both of the definition's float limits.
struct Shared {
    Floats scale, reciprocal, zero_point, low, high;

    Shared(float scale_, float zero_point_)
        : scale(kv::all(scale_)),
          reciprocal(kv::all(1.0f / scale_)),
          zero_point(kv::all(zero_point_)),
          low(kv::all(-128.0f - zero_point_)),
          high(kv::all(127.0f - zero_point_)) {}
};

template <class Item>
void divide_block(const Item* x, Bytes (&out)[BYTES], const Shared& shared) {
    for (Bytes& bytes : out) {
        Ints numbers[4];
        for (Ints& number : numbers) {
            const Floats quotient = kv::clamp(kv::read(x) / shared.scale, shared.low, shared.high);
            const Floats value = ((quotient + kv::ROUNDER) - kv::ROUNDER) + shared.zero_point;
            number = __builtin_convertvector(value == value ? value : Floats{}, Ints);
            x += kv::WIDTH;
        }
        bytes = kv::lowest_bytes(numbers);
    }
}

// With r = RN(1 / s), q = x / s and no underflow, RN(x r) lies within 1.001 2^-23 |q| of q and RN(x / s)
// within 2^-24 |q|. Where they do not saturate, |q| < 256 and they are less than 2^-14 apart: they round to
// the same integer unless the product lies that close to a tie. Such elements (about one of 8000) are
// divided, and their block with them.
constexpr float DOUBT = 0x1p-14f;

// Computes the block and says whether an element of it is doubtful (or NaN), so that the block must be divided.
template <class Item>
bool multiply_block(const Item* x, Bytes (&out)[BYTES], const Shared& shared) {
    const Floats rounder = shared.zero_point + kv::ROUNDER;
    Ints largest = {};
    for (Bytes& bytes : out) {
        Ints numbers[4];
        for (Ints& number : numbers) {
            const Floats quotient = kv::clamp(kv::read(x) * shared.reciprocal, shared.low, shared.high);
            const Floats sum = quotient + rounder;           // the integer wanted is in the lowest bits of it
            const Floats rest = quotient - (sum - rounder);  // exact, -.5 to .5
            const Ints size =
                reinterpret_cast<Ints>(rest) & 0x7fffffff;  // orders as |rest|, and NaN above all
            largest = size > largest ? size : largest;
            number = reinterpret_cast<Ints>(sum);
            x += kv::WIDTH;
        }
        bytes = kv::lowest_bytes(numbers);
    }
    return kv::any_larger(largest, reinterpret_cast<Ints>(kv::all(0.5f - DOUBT)));
}

// Fewer than BLOCK elements.
template <class Item>
void quantize_few(const Item* x, int8_t* out, int64_t n, const Shared& shared) {
    Item few[BLOCK] = {};
    Bytes result[BYTES];
    std::copy(x, x + n, few);
    divide_block(few, result, shared);
    std::memcpy(out, result, n);
}

template <class Stores, class Item>
void quantize(Stores, const Item* x, int8_t* out, int64_t n, float scale, float zero_point) {
    const Shared shared(scale, zero_point);
    // Outside, the reciprocal or its products would be subnormal or infinite, and the bound above not hold.
    const bool safe = scale >= 0x1p-100f && scale <= 0x1p100f;
    int64_t i = std::min(n, Stores::before(out, sizeof(Bytes)));
    if (i > 0) quantize_few(x, out, i, shared);
    for (; i + BLOCK <= n; i += BLOCK) {
        Bytes block[BYTES];
        Stores::fetch(x + i, BLOCK);
        if (!safe || multiply_block(x + i, block, shared)) divide_block(x + i, block, shared);
        for (int j = 0; j < BYTES; ++j) Stores::put(out + i + j * sizeof(Bytes), block[j]);
    }
    if (i < n) quantize_few(x + i, out + i, n - i, shared);
    Stores::finish();
}

template <class Item>
int start(const Item* x, int8_t* out, int64_t n, float scale, int zero_point, int threads) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n > 0 && (!x || !out)) return KV_ERROR_POINTER;
    int status = KV_OK;
    kv::with_stores(out, n * (sizeof(Item) + 1), [&](auto stores) {
        status = kv::parallel_for(n, BLOCK, threads, [=](int64_t begin, int64_t end) {
            quantize(stores, x + begin, out + begin, end - begin, scale, static_cast<float>(zero_point));
        });
    });
    return status;
}

}  // namespace

KV_CPU_KERNEL(kv_quantize_int8_cpu,
              (const float* x, int8_t* out, int64_t n, float scale, int zero_point, int threads),
              (x, out, n, scale, zero_point, threads)) {
    return start(x, out, n, scale, zero_point, threads);
}

KV_CPU_KERNEL(kv_quantize_int8_float16_cpu,
              (const uint16_t* x, int8_t* out, int64_t n, float scale, int zero_point, int threads),
              (x, out, n, scale, zero_point, threads)) {
    return start(reinterpret_cast<const kv::Float16*>(x), out, n, scale, zero_point, threads);
}

KV_CPU_KERNEL(kv_quantize_int8_bfloat16_cpu,
              (const uint16_t* x, int8_t* out, int64_t n, float scale, int zero_point, int threads),
              (x, out, n, scale, zero_point, threads)) {
    return start(reinterpret_cast<const kv::Bfloat16*>(x), out, n, scale, zero_point, threads);
}
