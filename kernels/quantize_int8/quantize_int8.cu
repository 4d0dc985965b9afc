// out = int8(clamp(round_half_even(x / scale) + zero_point, -128, 127)), float32 -> int8, element by element.
// CUDA.
//
// The same integers as quantize_int8.cpp: __fdiv_rn is the IEEE division whatever the compiler's flags, rintf
// rounds halves to even. NaN gives 0. (PyTorch's own CUDA division by a Python number multiplies with the
// reciprocal instead, and may differ from this by one step.) Cost: 5 FLOP and 5 bytes per element (one read
// of 4, one write of 1). Versions:
//   1  one element per thread and step of a grid-stride loop
//   2  four elements per access (read 16 bytes, write 4) where the pointers allow it
//   3  a thread asks for four vectors before it uses the first: 64 bytes on their way, not 16
#include "../_native/kv_cuda.h"

static __device__ int8_t quantize(float x, float scale, float zero_point) {
    const float value = __fadd_rn(rintf(__fdiv_rn(x, scale)), zero_point);
    if (isnan(value)) return 0;  // fminf and fmaxf would drop the NaN
    return static_cast<int8_t>(fminf(fmaxf(value, -128.0f), 127.0f));
}

extern "C" __global__ void kv_quantize_int8_scalar(const float* x, int8_t* out, int64_t n, float scale,
                                                   float zero_point) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
        out[i] = quantize(x[i], scale, zero_point);
}

static __device__ char4 quantize(float4 x, float scale, float zero_point) {
    return make_char4(quantize(x.x, scale, zero_point), quantize(x.y, scale, zero_point),
                      quantize(x.z, scale, zero_point), quantize(x.w, scale, zero_point));
}

constexpr int THREADS = 256;
constexpr int AHEAD = 4;  // vectors that a thread has on their way; a block's are neighbours

extern "C" __global__ void __launch_bounds__(THREADS)
    kv_quantize_int8_vector(const float4* x, char4* out, int64_t n, float scale, float zero_point) {
    const int64_t vectors = n / 4, step = int64_t{gridDim.x} * THREADS * AHEAD;
    for (int64_t i = int64_t{blockIdx.x} * THREADS * AHEAD + threadIdx.x; i < vectors; i += step) {
        float4 u[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < vectors) u[j] = x[i + j * THREADS];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < vectors) out[i + j * THREADS] = quantize(u[j], scale, zero_point);
    }
    // Up to three elements are left after the vectors.
    const int64_t last = vectors * 4 + int64_t{blockIdx.x} * THREADS + threadIdx.x;
    if (last < n)
        reinterpret_cast<int8_t*>(out)[last] =
            quantize(reinterpret_cast<const float*>(x)[last], scale, zero_point);
}

extern "C" KV_API int kv_quantize_int8_cuda(const float* x, int8_t* out, int64_t n, float scale,
                                            int zero_point, int device, void* stream) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !out) return KV_ERROR_POINTER;
    const auto queue = static_cast<cudaStream_t>(stream);
    const auto zero = static_cast<float>(zero_point);
    return kv::on_device(device, [=] {
        if (kv::is_aligned(x, 16) && kv::is_aligned(out, 4))
            kv_quantize_int8_vector<<<kv::grid_for((n + 3) / 4, THREADS * AHEAD), THREADS, 0, queue>>>(
                reinterpret_cast<const float4*>(x), reinterpret_cast<char4*>(out), n, scale, zero);
        else
            kv_quantize_int8_scalar<<<kv::grid_for(n, THREADS), THREADS, 0, queue>>>(x, out, n, scale, zero);
    });
}
