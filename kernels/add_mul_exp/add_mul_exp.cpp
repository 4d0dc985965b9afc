// out = exp((x + y) * 2), float32, element by element. CPU.
//
// Cost: 3 FLOP and 12 bytes per element (two reads, one write).
// Versions:
//   1  a plain loop around std::exp: one call per element, not vectorised
//   2  vectors, with an exp of our own: a polynomial, no call, no branch
//
// Accuracy: the sum and the product are float32's; exp of them is within 1.1 ulp of the true value (1.01 seen over
// the whole range), subnormal results included. Overflow gives infinity, underflow 0, NaN stays NaN.
#include <algorithm>

#include "../_native/kv.h"
#include "../_native/kv_isa.h"
#include "../_native/kv_simd.h"
#include "../_native/kv_threads.h"

namespace {

using kv::Floats;
using kv::Words;

// exp(x) = 2^n exp(r), n the integer nearest to x / ln 2, so |r| <= ln 2 / 2.
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

Floats exp(Floats x) {
    x = kv::clamp(x, LOWEST, HIGHEST);
    const Floats sum = x * PER_LN2 + kv::ROUNDER;
    const Floats n = sum - kv::ROUNDER;
    const Floats r = (x - n * LN2_HIGH) - n * LN2_LOW;
    const Floats p = (((P4 * r + P3) * r + P2) * r + P1) * r + P0;
    const Floats result = (r * r) * p + r + 1.0f;
    // In two factors, for 2^n alone may overflow where the result does not, and be 0 where the result is
    // subnormal.
    const kv::Ints whole = reinterpret_cast<kv::Ints>(sum) - reinterpret_cast<kv::Ints>(kv::all(kv::ROUNDER));
    const kv::Ints half = whole >> 1;
    return result * power_of_two(reinterpret_cast<Words>(half)) *
           power_of_two(reinterpret_cast<Words>(whole - half));
}

Floats add_mul_exp(const float* x, const float* y) {
    return exp((kv::load<Floats>(x) + kv::load<Floats>(y)) * 2.0f);
}

void run(const float* x, const float* y, float* out, int64_t n) {
    int64_t i = 0;
    for (; i + kv::WIDTH <= n; i += kv::WIDTH) kv::store(out + i, add_mul_exp(x + i, y + i));
    float last_x[kv::WIDTH] = {}, last_y[kv::WIDTH] = {}, last_out[kv::WIDTH];
    std::copy(x + i, x + n, last_x);
    std::copy(y + i, y + n, last_y);
    kv::store(last_out, add_mul_exp(last_x, last_y));
    std::copy(last_out, last_out + (n - i), out + i);
}

}  // namespace

KV_CPU_KERNEL(kv_add_mul_exp_cpu, (const float* x, const float* y, float* out, int64_t n, int threads),
              (x, y, out, n, threads)) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n > 0 && (!x || !y || !out)) return KV_ERROR_POINTER;
    return kv::parallel_for(n, kv::WIDTH, threads, [=](int64_t begin, int64_t end) {
        run(x + begin, y + begin, out + begin, end - begin);
    });
}
