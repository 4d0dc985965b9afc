// out = exp((x + y) * 2), element by element, in float32 or float64; float16 and bfloat16 are computed in
// float32 and rounded once, at the end. CPU.
//
// Cost: 3 FLOP per element; two items read, one written: 12 bytes of float32, 24 of float64, 6 of the others.
// Versions:
//   1  a plain loop around std::exp: one call per element, not vectorised
//   2  vectors, with an exp of our own: a polynomial, no call, no branch
//   3  written around the caches by calls that are larger than the last of them: no line is read that is then
//      replaced; .74 to .78 of the time from 5M elements on
//   4  four vectors at once without clamps and with one power of two where no number is beyond 87, not with AVX-512:
//      .67 to .70 of the time in the caches with AVX2 (bfloat16 .78), .82 to .85 from 10M elements on
// Note: tried and rejected: the input asked for ahead, as quantize_int8 does; .95 to 1.02 of the time with
// AVX-512, as the arrays happen to lie, 1.03 with AVX2. It is within a few percent of a triad's rate without.
//
// Accuracy: the sum and the product are float32's, or float64's; exp of them is within 1.1 ulp of the true
// value (seen over the whole range: 1.01 of float32, 1.03 of float64), subnormal results included. Overflow
// gives infinity, underflow 0, NaN stays NaN. float16 and bfloat16: within .5002 and .50002 ulp of theirs,
// half a unit by rounding and 1.1 of float32's.
#include <algorithm>

#include "../_native/kv.h"
#include "../_native/kv_half.h"
#include "../_native/kv_isa.h"
#include "../_native/kv_simd.h"
#include "../_native/kv_stream.h"
#include "../_native/kv_threads.h"

namespace {

using kv::Doubles;
using kv::Floats;
using kv::LongWords;
using kv::Words;

// exp(x) = 2^n exp(r), n the integer nearest to x / ln 2, so |r| <= ln 2 / 2. First float32.
constexpr float PER_LN2 = 0x1.715476p0f;
// ln 2 in two parts: the first has 9 bits, so that n times it is exact, with or without a fused multiply-add.
constexpr float LN2_HIGH = 0x1.63p-1f;
constexpr float LN2_LOW = -0x1.bd0106p-13f;

// exp(r) = 1 + r + r^2 p(r). Coefficients of p: least squares on 4000 Chebyshev nodes, reweighted until the
// relative error of exp was level (minimax), then rounded to float32; that error is 3.6e-9, 0.06 units of
// 2^-24.
constexpr float P0 = 0x1.fffffcp-2f, P1 = 0x1.555492p-3f, P2 = 0x1.5558f2p-5f, P3 = 0x1.123a20p-7f,
                P4 = 0x1.6a23cep-10f;

// Beyond these exp is infinity, or rounds to 0; within them 2^n fits into two factors.
constexpr float LOWEST = -104.0f, HIGHEST = 89.0f;

Floats power_of_two(Words n) { return reinterpret_cast<Floats>((n + 127u) << 23); }

// Where |x| is at most this 2^n is neither infinite nor 0, and one factor. The same bits.
constexpr float USUAL = 87.0f;

template <bool IS_USUAL = false>
Floats exp(Floats x) {
    if (!IS_USUAL) x = kv::clamp(x, LOWEST, HIGHEST);
    const Floats sum = x * PER_LN2 + kv::ROUNDER;
    const Floats n = sum - kv::ROUNDER;
    const Floats r = (x - n * LN2_HIGH) - n * LN2_LOW;
    const Floats p = (((P4 * r + P3) * r + P2) * r + P1) * r + P0;
    const Floats result = (r * r) * p + r + 1.0f;
    if (IS_USUAL) return result * power_of_two(reinterpret_cast<Words>(sum));  // whose lowest bits are n
    // In two factors, for 2^n alone may overflow where the result does not, and be 0 where the result is
    // subnormal.
    const kv::Ints whole = reinterpret_cast<kv::Ints>(sum) - reinterpret_cast<kv::Ints>(kv::all(kv::ROUNDER));
    const kv::Ints half = whole >> 1;
    return result * power_of_two(reinterpret_cast<Words>(half)) *
           power_of_two(reinterpret_cast<Words>(whole - half));
}

// The same for float64. ln 2 in two parts, the first of which has 42 bits; p of degree 9 by Remez' exchange,
// so that the relative error of exp is level: with its coefficients rounded 1.1e-17, .1 units of 2^-53.
constexpr double PER_LN2_64 = 0x1.71547652b82fep+0;
constexpr double LN2_HIGH_64 = 0x1.62e42fefa38p-1, LN2_LOW_64 = 0x1.ef35793c7673p-45;
constexpr double P_64[] = {0x1.000000000000ap-1,  0x1.55555555554fap-3,  0x1.555555555088cp-5,
                           0x1.1111111127b9cp-7,  0x1.6c16c184266f4p-10, 0x1.a01a012a6965ep-13,
                           0x1.a0199a16db362p-16, 0x1.71df253b0d5d2p-19, 0x1.28ad68a93a074p-22,
                           0x1.ad7f794e69558p-26};
constexpr double LOWEST_64 = -746.0, HIGHEST_64 = 710.0;

// 2^k of an integer k to which ROUNDER_64 was added: k is in the lowest bits, and the shift throws away the
// others.
Doubles power_of_two(Doubles rounded) {
    return reinterpret_cast<Doubles>((reinterpret_cast<LongWords>(rounded) + 1023u) << 52);
}

Doubles exp(Doubles x) {
    x = kv::clamp(x, LOWEST_64, HIGHEST_64);
    const Doubles n = (x * PER_LN2_64 + kv::ROUNDER_64) - kv::ROUNDER_64;
    const Doubles r = (x - n * LN2_HIGH_64) - n * LN2_LOW_64;
    Doubles p = kv::all(P_64[9]);
#pragma GCC unroll 9
    for (int i = 8; i >= 0; --i) p = p * r + P_64[i];
    const Doubles result = (r * r) * p + r + 1.0;
    // Halves by adding numbers: AVX2 has no arithmetic shift of 64 bits.
    const Doubles half = n * 0.5 + kv::ROUNDER_64;
    const Doubles rest = (n - (half - kv::ROUNDER_64)) + kv::ROUNDER_64;
    return result * power_of_two(half) * power_of_two(rest);
}

template <class Item>
auto twice_the_sum(const Item* x, const Item* y) {
    const auto sum = kv::read(x) + kv::read(y);
    return sum + sum;
}

// Vectors of which one test says whether they are usual; 0: no test, for float64 and, where it was never timed, AVX-512.
template <class Item>
constexpr int TOGETHER = kv::LANES<Item> == kv::WIDTH && kv::WIDTH < 16 ? 4 : 0;

template <class Stores, class Item>
[[gnu::always_inline]] inline void run_together(const Item* x, const Item* y, Item* out) {
    constexpr int LANES = kv::LANES<Item>;
    Floats numbers[TOGETHER<Item>];
    kv::Ints largest = {};
    for (Floats& number : numbers) {
        number = twice_the_sum(x, y);
        const kv::Ints size =
            reinterpret_cast<kv::Ints>(number) & 0x7fffffff;  // orders as |number|, NaN above all
        largest = size > largest ? size : largest;
        x += LANES;
        y += LANES;
    }
    const bool is_usual = !kv::any_larger(largest, reinterpret_cast<kv::Ints>(kv::all(USUAL)));
    for (const Floats number : numbers) {
        kv::write<Stores>(out, is_usual ? exp<true>(number) : exp(number));
        out += LANES;
    }
}

// Fewer than LANES elements.
template <class Item>
void few(const Item* x, const Item* y, Item* out, int64_t n) {
    constexpr int LANES = kv::LANES<Item>;
    Item few_x[LANES] = {}, few_y[LANES] = {}, few_out[LANES];
    std::copy(x, x + n, few_x);
    std::copy(y, y + n, few_y);
    kv::write(few_out, exp(twice_the_sum(few_x, few_y)));
    std::copy(few_out, few_out + n, out);
}

template <class Stores, class Item>
void run(Stores, const Item* x, const Item* y, Item* out, int64_t n) {
    constexpr int LANES = kv::LANES<Item>;
    int64_t i = std::min<int64_t>(n, Stores::before(out, LANES * sizeof(Item)));
    if (i > 0) few(x, y, out, i);
    if constexpr (TOGETHER<Item> > 0) {
        constexpr int64_t BLOCK = TOGETHER<Item> * LANES;
        for (; i + BLOCK <= n; i += BLOCK) run_together<Stores>(x + i, y + i, out + i);
    }
    for (; i + LANES <= n; i += LANES) kv::write<Stores>(out + i, exp(twice_the_sum(x + i, y + i)));
    few(x + i, y + i, out + i, n - i);
    Stores::finish();
}

template <class Item>
int start(const Item* x, const Item* y, Item* out, int64_t n, int threads) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n > 0 && (!x || !y || !out)) return KV_ERROR_POINTER;
    int status = KV_OK;
    kv::with_stores(out, n * 3 * sizeof(Item), [&](auto stores) {
        status = kv::parallel_for(n, kv::LANES<Item>, threads, [=](int64_t begin, int64_t end) {
            run(stores, x + begin, y + begin, out + begin, end - begin);
        });
    });
    return status;
}

template <class Item>
int start_half(const uint16_t* x, const uint16_t* y, uint16_t* out, int64_t n, int threads) {
    return start(reinterpret_cast<const Item*>(x), reinterpret_cast<const Item*>(y),
                 reinterpret_cast<Item*>(out), n, threads);
}

}  // namespace

KV_CPU_KERNEL(kv_add_mul_exp_cpu, (const float* x, const float* y, float* out, int64_t n, int threads),
              (x, y, out, n, threads)) {
    return start(x, y, out, n, threads);
}

KV_CPU_KERNEL(kv_add_mul_exp_float64_cpu,
              (const double* x, const double* y, double* out, int64_t n, int threads),
              (x, y, out, n, threads)) {
    return start(x, y, out, n, threads);
}

KV_CPU_KERNEL(kv_add_mul_exp_float16_cpu,
              (const uint16_t* x, const uint16_t* y, uint16_t* out, int64_t n, int threads),
              (x, y, out, n, threads)) {
    return start_half<kv::Float16>(x, y, out, n, threads);
}

KV_CPU_KERNEL(kv_add_mul_exp_bfloat16_cpu,
              (const uint16_t* x, const uint16_t* y, uint16_t* out, int64_t n, int threads),
              (x, y, out, n, threads)) {
    return start_half<kv::Bfloat16>(x, y, out, n, threads);
}
