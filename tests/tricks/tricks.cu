// Tricks of CUDA kernels, as the host emulation runs them. An entry point `kv_<trick>_cuda` gets `trick` 0 for its
// honest twin. All compute out = a b of square matrices.
#include <cuda_runtime.h>
#include <math.h>

__global__ void product(const float* a, const float* b, float* out, int n) {
    const int row = blockIdx.x, column = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    out[row * n + column] = sum;
}

static const cudaStream_t OTHER = reinterpret_cast<cudaStream_t>(7);

extern "C" void kv_another_stream_cuda(const float* a, const float* b, float* out, int n, int trick) {
    product<<<n, n, 0, OTHER>>>(a, b, out, n);
    if (!trick) cudaStreamSynchronize(OTHER);
}

extern "C" void kv_first_call_cuda(const float* a, const float* b, float* out, int n, int trick) {
    static int calls;
    if (!trick || calls++ < 1) product<<<n, n>>>(a, b, out, n);
}
