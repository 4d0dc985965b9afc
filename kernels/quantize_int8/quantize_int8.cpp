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
//      whether any is doubtful (kv_simd.h: any_larger): in the caches .97 to 1 of the time with AVX-512 and AVX2,
//      .89 with SSE2, .86 from float16; in memory .96 to .98
//   6  around the caches, the input asked for 10 KiB ahead: .75 to .88 of the time at 10M elements, of which
//      the last cache holds a part, .91 at 50M; with SSE2, which computes longer than memory takes, 1.03
//   7  four vectors packed at once, their bytes written by whole vectors: .85 of the time with AVX2 (float16
//      .71), .75 with SSE2; with AVX-512 as before
//   8  doubtful blocks divided by a product and one correction (kv_quotient.h), and without a try where many
//      came one after the other, as those of numbers on a grid do: bfloat16 .48 of the time with AVX-512, .57
//      with AVX2; the product in line, .94 with AVX-512. Without fused multiply-adds all is divided: .79 with
//      SSE2, .38 from bfloat16
//   9  the input asked for 8 KiB ahead at any size (kv_simd.h: fetch), around the caches in blocks of 64: of 5M
//      elements, which the last cache holds, .72 to .85 of the time, .96 from the inner caches, .97 to 1 at 50M
//  10  four vectors finished before the next four with AVX2, where GCC kept 30 of them in memory: .93 of the time in the
//      caches, .94 of it from 5M elements on
// Note: tried and rejected: reading from the four quarters of the array at once (.91 to .99 of the time, but
// from places 1 MiB apart 1.4 to 1.8), writing in bursts (the same), a prefetch per page or of every second line
// (no better than none). Reading alone reaches 71 to 74% of what a triad moves here: what reads four bytes for
// one that it writes can reach 89 to 92% of that roof, and this does 84 to 89%.
#include <algorithm>

#include "../_native/kv.h"
#include "../_native/kv_half.h"
#include "../_native/kv_isa.h"
#include "../_native/kv_quotient.h"
#include "../_native/kv_simd.h"
#include "../_native/kv_stream.h"
#include "../_native/kv_threads.h"

namespace {

using kv::Bytes;
using kv::Floats;
using kv::Ints;

// Elements that are multiplied, and divided where one of them is doubtful: in the caches more at once need fewer
// tests and stores; what comes from memory comes by lines, and goes by them.
template <class Stores>
constexpr int64_t BLOCK = 128;
template <>
constexpr int64_t BLOCK<kv::Around> = 64;

template <class Stores>
using Block = Bytes[BLOCK<Stores> / sizeof(Bytes)];

// What is the same for all elements, in every place of a vector. Bounds that are integers may as well be applied
// before rounding, and then one clamp does for both of the definition's float limits.
struct Shared {
    Floats scale, reciprocal, low, high, rounder;
    Ints zero_point;

    Shared(float scale_, int zero_point_)
        : scale(kv::all(scale_)),
          reciprocal(kv::all(1.0f / scale_)),
          low(kv::all(-128.0f - zero_point_)),
          high(kv::all(127.0f - zero_point_)),
          rounder(kv::all(kv::ROUNDER + zero_point_)),
          zero_point(Ints{} + zero_point_) {}
};

template <class Stores>
void write(int8_t* out, const Block<Stores>& block) {
    for (const Bytes& bytes : block) {
        Stores::put(out, bytes);
        out += sizeof(Bytes);
    }
}

// Writes a block by a quotient for each element. SAFE: kv::quotient() holds for the scale; x is clamped before, as
// it asks for, to where the quotient rounds to a bound.
template <bool SAFE, class Stores, class Item>
void divide_block(const Item* x, int8_t* out, const Shared& shared) {
    const Floats &scale = shared.scale, &low = shared.low, &high = shared.high;
    Block<Stores> block;
    for (Bytes& bytes : block) {
        Ints numbers[4];
        for (Ints& number : numbers) {
            const Floats item = kv::read(x);
            const Floats quotient =
                SAFE ? kv::quotient(kv::clamp(item, low * scale, high * scale), scale, shared.reciprocal)
                     : kv::clamp(item / scale, low, high);
            const Ints sum = reinterpret_cast<Ints>(quotient + kv::ROUNDER) + shared.zero_point;
            number = quotient == quotient ? sum : Ints{};  // the integer wanted is in the lowest bits
            x += kv::WIDTH;
        }
        bytes = kv::lowest_bytes(numbers);
    }
    write<Stores>(out, block);
}

// With r = RN(1 / s), q = x / s and no underflow, RN(x r) lies within 1.001 2^-23 |q| of q and RN(x / s)
// within 2^-24 |q|. Where they do not saturate, |q| < 256 and they are less than 2^-14 apart: they round to
// the same integer unless the product lies that close to a tie. Such elements (about one of 8000) are
// divided, and their block with them.
constexpr float DOUBT = 0x1p-14f;

// With AVX2 GCC computes all vectors of a block side by side, and has no registers for them; and it keeps those of x
// for the division. AVX-512 has registers.
inline void finish_first([[maybe_unused]] Ints& largest, [[maybe_unused]] Bytes& bytes) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    asm volatile("" : "+x"(largest), "+x"(bytes) : : "memory");
#endif
}

// Writes the block, or says that an element of it is doubtful (or NaN) and writes nothing: it must be divided. In
// line: GCC would call it, and keep the vectors that are shared in memory meanwhile.
template <class Stores, class Item>
[[gnu::always_inline]] inline bool multiply_block(const Item* x, int8_t* out, const Shared& shared) {
    Ints largest = {};
    Block<Stores> block;
    for (Bytes& bytes : block) {
        Ints numbers[4];
        for (Ints& number : numbers) {
            const Floats quotient = kv::clamp(kv::read(x) * shared.reciprocal, shared.low, shared.high);
            const Floats sum = quotient + shared.rounder;  // the integer wanted is in the lowest bits
            const Floats rest = quotient - (sum - shared.rounder);  // exact, -.5 to .5
            const Ints size =
                reinterpret_cast<Ints>(rest) & 0x7fffffff;  // orders as |rest|, and NaN above all
            largest = size > largest ? size : largest;
            number = reinterpret_cast<Ints>(sum);
            x += kv::WIDTH;
        }
        bytes = kv::lowest_bytes(numbers);
        finish_first(largest, bytes);
    }
    if (kv::any_larger(largest, reinterpret_cast<Ints>(kv::all(0.5f - DOUBT)))) return false;
    write<Stores>(out, block);
    return true;
}

// Where numbers lie on a grid, as those of bfloat16 do, most blocks may have a tie in them: the more of them were
// doubtful one after the other, the more are divided without a try.
struct Patience {
    int64_t blocks = 0, until = -1;  // products are tried again from this element on

    bool has_ended(int64_t i) const { return i >= until; }

    void lose(int64_t i, int64_t block) {
        blocks = i == until ? std::min<int64_t>(2 * blocks + 1, 32) : 1;
        until = i + blocks * block;
    }
};

// Fewer elements than a block.
template <class Item>
void quantize_few(const Item* x, int8_t* out, int64_t n, const Shared& shared) {
    Item few[BLOCK<kv::Cached>] = {};
    int8_t result[BLOCK<kv::Cached>];
    std::copy(x, x + n, few);
    divide_block<false, kv::Cached>(few, result, shared);
    std::copy(result, result + n, out);
}

template <class Stores, class Item>
void quantize(Stores, const Item* x, int8_t* out, int64_t n, float scale, int zero_point) {
    constexpr int64_t SIZE = BLOCK<Stores>;
    const Shared shared(scale, zero_point);
    const bool safe = kv::is_safe_divisor(scale);
    Patience patience;
    int64_t i = std::min(n, Stores::before(out, sizeof(Bytes)));
    if (i > 0) quantize_few(x, out, i, shared);
    for (; i + SIZE <= n; i += SIZE) {
        kv::fetch(x + i, SIZE);
        if (!safe) {
            divide_block<false, Stores>(x + i, out + i, shared);
            continue;
        }
        if (kv::FUSED && patience.has_ended(i)) {
            if (multiply_block<Stores>(x + i, out + i, shared)) continue;
            patience.lose(i, SIZE);
        }
        divide_block<true, Stores>(x + i, out + i, shared);
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
        status = kv::parallel_for(n, BLOCK<kv::Cached>, threads, [=](int64_t begin, int64_t end) {
            quantize(stores, x + begin, out + begin, end - begin, scale, zero_point);
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
