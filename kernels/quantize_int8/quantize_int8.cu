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
#include "../_native/kv_cuda.h"

// By the IEEE division, whatever the compiler's flags: for any scale.
static __device__ int8_t quantize(float x, float scale, float zero_point) {
    const float value = __fadd_rn(rintf(__fdiv_rn(x, scale)), zero_point);
    if (isnan(value)) return 0;  // fminf and fmaxf would drop the NaN
    return static_cast<int8_t>(fminf(fmaxf(value, -128.0f), 127.0f));
}

// The same integers without a division, for scale from 2^-64 to 2^100. With the reciprocal rounded to the nearest, a
// quotient that errs by less than a unit in the last place becomes the quotient rounded to the nearest by adding its
// exact remainder times the reciprocal (Markstein, IBM Journal of Research and Development 34, 1990). The product errs
// by up to two units; a first correction makes it good enough for a second. Remainders are exact for |x| >= 2^-100;
// what is smaller rounds to 0 in any case. Bounds before the division keep infinities out, and the integer within
// int8: low and high lie a quarter beyond -128 and 127, so they round to these.
struct Scale {
    float scale, reciprocal, low, high;
    int zero_point;

    Scale(float scale_, int zero_point_)
        : scale(scale_),
          reciprocal(1.0f / scale_),
          low((-128.25f - static_cast<float>(zero_point_)) * scale_),
          high((127.25f - static_cast<float>(zero_point_)) * scale_),
          zero_point(zero_point_) {}

    bool is_safe() const { return scale >= 0x1p-64f && scale <= 0x1p100f; }
};

static __device__ signed char quantize(float x, const Scale& by) {
    const float bounded = fminf(fmaxf(x, by.low), by.high);
    float quotient = bounded * by.reciprocal;
    quotient = fmaf(fmaf(-quotient, by.scale, bounded), by.reciprocal, quotient);
    quotient = fmaf(fmaf(-quotient, by.scale, bounded), by.reciprocal, quotient);
    return isnan(x) ? 0 : static_cast<signed char>(__float2int_rn(quotient) + by.zero_point);
}

extern "C" __global__ void kv_quantize_int8_scalar(const float* x, int8_t* out, int64_t n, float scale,
                                                   float zero_point) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
        out[i] = quantize(x[i], scale, zero_point);
}

static __device__ char4 quantize(float4 x, const Scale& by) {
    return make_char4(quantize(x.x, by), quantize(x.y, by), quantize(x.z, by), quantize(x.w, by));
}

constexpr int THREADS = 256;
constexpr int AHEAD = 4;  // vectors that a thread has on their way; a block's are neighbours

extern "C" __global__ void __launch_bounds__(THREADS)
    kv_quantize_int8_vector(const float4* x, char4* out, int64_t n, Scale by) {
    const int64_t vectors = n / 4, step = int64_t{gridDim.x} * THREADS * AHEAD;
    for (int64_t i = int64_t{blockIdx.x} * THREADS * AHEAD + threadIdx.x; i < vectors; i += step) {
        float4 u[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < vectors) u[j] = x[i + j * THREADS];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < vectors) out[i + j * THREADS] = quantize(u[j], by);
    }
    // Up to three elements are left after the vectors.
    const int64_t last = vectors * 4 + int64_t{blockIdx.x} * THREADS + threadIdx.x;
    if (last < n)
        reinterpret_cast<int8_t*>(out)[last] = quantize(reinterpret_cast<const float*>(x)[last], by);
}

extern "C" KV_API int kv_quantize_int8_cuda(const float* x, int8_t* out, int64_t n, float scale,
                                            int zero_point, int device, void* stream) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !out) return KV_ERROR_POINTER;
    const auto queue = static_cast<cudaStream_t>(stream);
    const Scale by(scale, zero_point);
    return kv::on_device(device, [=] {
        if (by.is_safe() && kv::is_aligned(x, 16) && kv::is_aligned(out, 4))
            kv_quantize_int8_vector<<<kv::grid_for((n + 3) / 4, THREADS * AHEAD), THREADS, 0, queue>>>(
                reinterpret_cast<const float4*>(x), reinterpret_cast<char4*>(out), n, by);
        else
            kv_quantize_int8_scalar<<<kv::grid_for(n, THREADS), THREADS, 0, queue>>>(
                x, out, n, scale, static_cast<float>(zero_point));
    });
}
