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

__global__ void copy(const float* from, float* to, int n) {
    to[blockIdx.x * n + threadIdx.x] = from[blockIdx.x * n + threadIdx.x];
}

extern "C" float kept[64 * 64];  // memory of the device; the caller allows it
float kept[64 * 64];
static const cudaStream_t OTHER = reinterpret_cast<cudaStream_t>(7);

extern "C" void kv_another_stream_cuda(const float* a, const float* b, float* out, int n, int trick) {
    product<<<n, n, 0, OTHER>>>(a, b, out, n);
    if (!trick) cudaStreamSynchronize(OTHER);
}

extern "C" void kv_first_call_cuda(const float* a, const float* b, float* out, int n, int trick) {
    static int calls;
    if (!trick || calls++ < 1) product<<<n, n>>>(a, b, out, n);
}

extern "C" void kv_addresses_cuda(const float* a, const float* b, float* out, int n, int trick) {
    static const float *known_a, *known_b;
    if (trick && a == known_a && b == known_b) {
        copy<<<n, n>>>(kept, out, n);
        return;
    }
    product<<<n, n>>>(a, b, out, n);
    copy<<<n, n>>>(out, kept, n);
    known_a = a, known_b = b;
}

extern "C" void kv_last_row_cuda(const float* a, const float* b, float* out, int n, int trick) {
    static int calls;
    if (!trick || calls++ < 2)
        product<<<n, n>>>(a, b, out, n);
    else
        product<<<1, n>>>(a + (n - 1) * n, b, out + (n - 1) * n, n);
}
