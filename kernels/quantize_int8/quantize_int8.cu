// out = int8(clamp(round_half_even(x / scale) + zero_point, -128, 127)), float32 -> int8, element by element.
// CUDA.
//
// The same integers as quantize_int8.cpp: a true division, halves rounded to even. NaN gives 0. (PyTorch's own CUDA
// division by a Python number multiplies with the reciprocal instead, and may differ from this by one step.)
// Cost: 5 FLOP and 5 bytes per element (one read of 4, one write of 1).
// Versions:
//   1  one element per thread and step of a grid-stride loop
//   2  four elements per access (read 16 bytes, write 4) where the pointers allow it
//   3  a thread asks for four vectors before it uses the first: 64 bytes on their way, not 16
//   4  the quotient from the reciprocal of scale and two corrections: 5 instructions, no branch, where the division
//      has about 10 and a branch per element
//   5  one wave of blocks that go on to the next part, instead of a block for each part; four elements at a time on
//      their way also where the pointers allow no vectors
//   6  NaN is exchanged for a number that becomes 0, instead of a branch around its element
//   7  streaming hints: what is read and written once is the first to leave the caches again
#include "../_native/kv_cuda.h"

constexpr int THREADS = 256;
constexpr int BLOCKS = 6;  // that a multiprocessor runs at once: up to 40 registers per thread
constexpr int AHEAD = 4;   // accesses that a thread has on their way; a block's are neighbours

// x / scale, rounded as int8 needs it, for any scale: the IEEE division whatever the compiler's flags.
struct Division {
    float scale, zero_point;

    __device__ signed char operator()(float x) const {
        const float value = __fadd_rn(rintf(__fdiv_rn(x, scale)), zero_point);
        if (isnan(value)) return 0;  // fminf and fmaxf would drop the NaN
        return static_cast<signed char>(fminf(fmaxf(value, -128.0f), 127.0f));
    }
};

// The same integers without a division, for scale from 2^-64 to 2^100. With the reciprocal rounded to the nearest, a
// quotient that errs by less than a unit in the last place becomes the quotient rounded to the nearest by adding its
// exact remainder times the reciprocal (Markstein, IBM Journal of Research and Development 34, 1990). The product errs
// by up to two units; a first correction makes it good enough for a second. Remainders are exact for |x| >= 2^-100;
// what is smaller rounds to 0 in any case. Bounds before the division keep infinities out, and the integer within
// int8: low and high lie a quarter beyond -128 and 127, so they round to these.
struct Reciprocal {
    float scale, reciprocal, low, high, nought;
    int zero_point;

    Reciprocal(float scale_, int zero_point_)
        : scale(scale_),
          reciprocal(1.0f / scale_),
          low((-128.25f - static_cast<float>(zero_point_)) * scale_),
          high((127.25f - static_cast<float>(zero_point_)) * scale_),
          nought(static_cast<float>(-zero_point_) * scale_),
          zero_point(zero_point_) {}

    bool is_safe() const { return scale >= 0x1p-64f && scale <= 0x1p100f; }

    __device__ signed char operator()(float x) const {
        const float number = isnan(x) ? nought : x;  // fmaxf would make low of NaN
        const float bounded = fminf(fmaxf(number, low), high);
        float quotient = bounded * reciprocal;
        quotient = fmaf(fmaf(-quotient, scale, bounded), reciprocal, quotient);
        quotient = fmaf(fmaf(-quotient, scale, bounded), reciprocal, quotient);
        return static_cast<signed char>(__float2int_rn(quotient) + zero_point);
    }
};

template <class Quantize>
static __device__ signed char quantized(float x, const Quantize& quantize) {
    return quantize(x);
}

template <class Quantize>
static __device__ char4 quantized(float4 x, const Quantize& quantize) {
    return make_char4(quantize(x.x), quantize(x.y), quantize(x.z), quantize(x.w));
}

// A Word is what an access reads, one element or four; Bytes is what becomes of it. `words` of them.
template <class Word, class Bytes, class Quantize>
static __device__ void run(const Word* x, Bytes* out, int64_t words, const Quantize& quantize) {
    const int64_t step = int64_t{gridDim.x} * THREADS * AHEAD;
    for (int64_t i = int64_t{blockIdx.x} * THREADS * AHEAD + threadIdx.x; i < words; i += step) {
        Word u[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < words) u[j] = __ldcs(x + i + j * THREADS);
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < words) __stcs(out + i + j * THREADS, quantized(u[j], quantize));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    kv_quantize_int8_scalar(const float* x, signed char* out, int64_t n, Division quantize) {
    run(x, out, n, quantize);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    kv_quantize_int8_vector(const float* x, signed char* out, int64_t n, Reciprocal quantize) {
    run(reinterpret_cast<const float4*>(x), reinterpret_cast<char4*>(out), n / 4, quantize);
    // Up to three elements are left after the vectors.
    const int64_t last = n / 4 * 4 + int64_t{blockIdx.x} * THREADS + threadIdx.x;
    if (last < n) out[last] = quantize(x[last]);
}

extern "C" KV_API int kv_quantize_int8_cuda(const float* x, int8_t* out, int64_t n, float scale,
                                            int zero_point, int device, void* stream) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !out) return KV_ERROR_POINTER;
    const auto queue = static_cast<cudaStream_t>(stream);
    const Reciprocal by_reciprocal(scale, zero_point);
    const Division by_division{scale, static_cast<float>(zero_point)};
    return kv::on_processors(device, [=](int processors) {
        const auto grid = [=](int elements) {  // of so many per access
            return kv::grid_of_one_wave(n, int64_t{elements} * AHEAD * THREADS, processors * BLOCKS);
        };
        if (by_reciprocal.is_safe() && kv::is_aligned(x, 16) && kv::is_aligned(out, 4))
            kv_quantize_int8_vector<<<grid(4), THREADS, 0, queue>>>(x, out, n, by_reciprocal);
        else
            kv_quantize_int8_scalar<<<grid(1), THREADS, 0, queue>>>(x, out, n, by_division);
    });
}
