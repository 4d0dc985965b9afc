// out = exp((x + y) * 2), float32, element by element. CUDA.
//
// Cost: 3 FLOP and 12 bytes per element (two reads, one write): bound by memory on every GPU.
// Versions:
//   1  one element per thread and step of a grid-stride loop
// expf, not __expf: at most 1 ulp from the true value (CUDA's published bound), and NaN and infinities as
// IEEE wants.
#include "../_native/kv_cuda.h"

extern "C" __global__ void kv_add_mul_exp_scalar(const float* x, const float* y, float* out, int64_t n) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
        out[i] = expf((x[i] + y[i]) * 2.0f);
}

extern "C" KV_API int kv_add_mul_exp_cuda(const float* x, const float* y, float* out, int64_t n, int device,
                                          void* stream) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !y || !out) return KV_ERROR_POINTER;
    return kv::on_device(device, [=] {
        kv_add_mul_exp_scalar<<<kv::grid_for(n, 256), 256, 0, static_cast<cudaStream_t>(stream)>>>(x, y, out,
                                                                                                   n);
    });
}
