// Each row of a matrix quantised with a scale of its own: scale = max |x| of the row / 127, and out =
// int8(round_half_even(x / scale)), from -127 to 127. x: rows x columns of float32, float16 or bfloat16,
// which are made float32 first; scales: rows of float32. CPU.
//
// Exactly the numbers of float32 operations: a true division of the maximum by 127, and true quotients. A
// row of zeros has scale 0 and integers 0; one with an infinity or a NaN has that as its scale, and integers
// 0 (x / inf is 0, and NaN gives 0). Where max / 127 rounds to 0 though the maximum is not 0, integers are
// 127 or -127 (x / 0 is infinite).
// Cost: 6 FLOP per element; an item read and a byte written per element, 4 bytes per row. A row is read
// twice, the second time from a cache.
// Versions:
//   1  vectors; two corrections of a product with the reciprocal where there are fused multiply-adds
//   2  one correction: no integer needs the second (kv_quotient.h); four vectors packed at once: .7 to .87 of the
//      time with AVX2, .88 from bfloat16 with AVX-512, where rows shorter than 128 items take 1.1
#include <algorithm>
#include <cstring>

#include "../_native/kv.h"
#include "../_native/kv_half.h"
#include "../_native/kv_isa.h"
#include "../_native/kv_quotient.h"
#include "../_native/kv_simd.h"
#include "../_native/kv_threads.h"

namespace {

using kv::Bytes;
using kv::Floats;
using kv::Ints;
using kv::WIDTH;

// As integers the bits of numbers that are not negative are ordered as the numbers are, infinity above them
// all, and NaN above it: so a NaN is not lost.
Ints size_of(Floats x) { return reinterpret_cast<Ints>(x) & 0x7fffffff; }

template <class Item>
float largest(const Item* x, int64_t n) {
    Ints most = {};
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        const Ints size = size_of(kv::read(x + i));
        most = size > most ? size : most;
    }
    Item last[WIDTH] = {};
    std::copy(x + i, x + n, last);
    const Ints size = size_of(kv::read(last));
    most = size > most ? size : most;
    int32_t each[WIDTH];
    kv::store(each, most);
    const int32_t bits = *std::max_element(each, each + WIDTH);
    float result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
}

// For scales that are 0, tiny, huge, infinite or NaN.
Floats bounded_quotient(Floats x, float scale) {
    const Floats value = kv::clamp(x / scale, -127.0f, 127.0f);
    return value == value ? value : Floats{};
}

template <bool SAFE, class Item>
Bytes quantized(const Item* x, float scale, float reciprocal) {
    Ints numbers[4];
    for (Ints& each : numbers) {
        const Floats number = kv::read(x);
        const Floats value = SAFE ? kv::quotient(number, kv::all(scale), kv::all(reciprocal))
                                  : bounded_quotient(number, scale);
        each = reinterpret_cast<Ints>(value + kv::ROUNDER);  // the integer wanted is in the lowest bits
        x += WIDTH;
    }
    return kv::lowest_bytes(numbers);
}

template <bool SAFE, class Item>
void quantize(const Item* x, int8_t* out, int64_t n, float scale) {
    constexpr int64_t SIZE = sizeof(Bytes);
    const float reciprocal = 1.0f / scale;
    int64_t i = 0;
    for (; i + SIZE <= n; i += SIZE) kv::store(out + i, quantized<SAFE>(x + i, scale, reciprocal));
    if (i == n) return;
    Item last[SIZE] = {};
    std::copy(x + i, x + n, last);
    const Bytes result = quantized<SAFE>(last, scale, reciprocal);
    std::memcpy(out + i, &result, n - i);
}

template <class Item>
int start(const Item* x, int8_t* out, float* scales, int64_t rows, int64_t columns, int threads) {
    if (rows < 0 || columns < 0) return KV_ERROR_SIZE;
    if (rows > 0 && (!scales || (columns > 0 && (!x || !out)))) return KV_ERROR_POINTER;
    return kv::parallel_for(rows, 1, threads, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const Item* const from = x + row * columns;
            const float scale = largest(from, columns) / 127.0f;
            scales[row] = scale;
            if (kv::is_safe_divisor(scale))
                quantize<true>(from, out + row * columns, columns, scale);
            else
                quantize<false>(from, out + row * columns, columns, scale);
        }
    });
}

}  // namespace

KV_CPU_KERNEL(kv_quantize_int8_rows_cpu,
              (const float* x, int8_t* out, float* scales, int64_t rows, int64_t columns, int threads),
              (x, out, scales, rows, columns, threads)) {
    return start(x, out, scales, rows, columns, threads);
}

KV_CPU_KERNEL(kv_quantize_int8_rows_float16_cpu,
              (const uint16_t* x, int8_t* out, float* scales, int64_t rows, int64_t columns, int threads),
              (x, out, scales, rows, columns, threads)) {
    return start(reinterpret_cast<const kv::Float16*>(x), out, scales, rows, columns, threads);
}

KV_CPU_KERNEL(kv_quantize_int8_rows_bfloat16_cpu,
              (const uint16_t* x, int8_t* out, float* scales, int64_t rows, int64_t columns, int threads),
              (x, out, scales, rows, columns, threads)) {
    return start(reinterpret_cast<const kv::Bfloat16*>(x), out, scales, rows, columns, threads);
}
