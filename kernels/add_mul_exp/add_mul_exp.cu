// out = exp((x + y) * 2), float32, element by element. CUDA.
//
// Cost: 3 FLOP and 12 bytes per element (two reads, one write): bound by memory on every GPU.
// Versions:
//   1  one element per thread and step of a grid-stride loop
//   2  four elements per access (16 bytes) where the pointers allow it: a quarter of the memory instructions
//   3  a thread asks for four vectors of x and of y before it uses the first: 128 bytes on their way, not 32
// expf, not __expf: at most 1 ulp from the true value (CUDA's published bound), and NaN and infinities as
// IEEE wants. Pointers are not __restrict__: out may be x or y itself. Each element is read before it is
// written, by one thread.
#include "../_native/kv_cuda.h"

static __device__ float add_mul_exp(float x, float y) { return expf((x + y) * 2.0f); }

extern "C" __global__ void kv_add_mul_exp_scalar(const float* x, const float* y, float* out, int64_t n) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
        out[i] = add_mul_exp(x[i], y[i]);
}

static __device__ float4 add_mul_exp(float4 u, float4 v) {
    return make_float4(add_mul_exp(u.x, v.x), add_mul_exp(u.y, v.y), add_mul_exp(u.z, v.z),
                       add_mul_exp(u.w, v.w));
}

constexpr int THREADS = 256;
constexpr int AHEAD = 4;  // vectors of each input that a thread has on their way; a block's are neighbours

extern "C" __global__ void __launch_bounds__(THREADS)
    kv_add_mul_exp_vector(const float4* x, const float4* y, float4* out, int64_t n) {
    const int64_t vectors = n / 4, step = int64_t{gridDim.x} * THREADS * AHEAD;
    for (int64_t i = int64_t{blockIdx.x} * THREADS * AHEAD + threadIdx.x; i < vectors; i += step) {
        float4 u[AHEAD], v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < vectors) u[j] = x[i + j * THREADS], v[j] = y[i + j * THREADS];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < vectors) out[i + j * THREADS] = add_mul_exp(u[j], v[j]);
    }
    // Up to three elements are left after the vectors.
    const int64_t last = vectors * 4 + int64_t{blockIdx.x} * THREADS + threadIdx.x;
    if (last < n)
        reinterpret_cast<float*>(out)[last] =
            add_mul_exp(reinterpret_cast<const float*>(x)[last], reinterpret_cast<const float*>(y)[last]);
}

extern "C" KV_API int kv_add_mul_exp_cuda(const float* x, const float* y, float* out, int64_t n, int device,
                                          void* stream) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !y || !out) return KV_ERROR_POINTER;
    const auto queue = static_cast<cudaStream_t>(stream);
    return kv::on_device(device, [=] {
        if (kv::is_aligned(x, 16) && kv::is_aligned(y, 16) && kv::is_aligned(out, 16))
            kv_add_mul_exp_vector<<<kv::grid_for((n + 3) / 4, THREADS * AHEAD), THREADS, 0, queue>>>(
                reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(y),
                reinterpret_cast<float4*>(out), n);
        else
            kv_add_mul_exp_scalar<<<kv::grid_for(n, THREADS), THREADS, 0, queue>>>(x, y, out, n);
    });
}
