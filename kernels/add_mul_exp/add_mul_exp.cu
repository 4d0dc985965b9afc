// out = exp((x + y) * 2), float32, element by element. CUDA.
//
// Cost: 3 FLOP and 12 bytes per element (two reads, one write): bound by memory on every GPU.
// Versions:
//   1  one element per thread and step of a grid-stride loop
//   2  four elements per access (16 bytes) where the pointers allow it: a quarter of the memory instructions
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

extern "C" __global__ void kv_add_mul_exp_vector(const float4* x, const float4* y, float4* out, int64_t n) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < n / 4; i += step) {
        const float4 u = x[i], v = y[i];
        out[i] = make_float4(add_mul_exp(u.x, v.x), add_mul_exp(u.y, v.y), add_mul_exp(u.z, v.z),
                             add_mul_exp(u.w, v.w));
    }
    const int64_t last = n / 4 * 4 + first;  // up to three elements are left after the vectors
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
            kv_add_mul_exp_vector<<<kv::grid_for((n + 3) / 4, 256), 256, 0, queue>>>(
                reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(y),
                reinterpret_cast<float4*>(out), n);
        else
            kv_add_mul_exp_scalar<<<kv::grid_for(n, 256), 256, 0, queue>>>(x, y, out, n);
    });
}
