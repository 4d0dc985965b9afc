// out = int8(clamp(round_half_even(x / scale) + zero_point, -128, 127)), float32 -> int8, element by element.
// CUDA.
//
// The same integers as quantize_int8.cpp: __fdiv_rn is the IEEE division whatever the compiler's flags, rintf
// rounds halves to even. NaN gives 0. (PyTorch's own CUDA division by a Python number multiplies with the
// reciprocal instead, and may differ from this by one step.) Cost: 5 FLOP and 5 bytes per element (one read
// of 4, one write of 1). Versions:
//   1  one element per thread and step of a grid-stride loop
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

extern "C" KV_API int kv_quantize_int8_cuda(const float* x, int8_t* out, int64_t n, float scale,
                                            int zero_point, int device, void* stream) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !out) return KV_ERROR_POINTER;
    return kv::on_device(device, [=] {
        kv_quantize_int8_scalar<<<kv::grid_for(n, 256), 256, 0, static_cast<cudaStream_t>(stream)>>>(
            x, out, n, scale, static_cast<float>(zero_point));
    });
}
