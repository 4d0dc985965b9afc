// Kernels whose memory traffic is known, for traffic.py to count: a block of 64 threads, in and out of 2048 floats.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define ENTRY_POINT(name)                                                                               \
    extern "C" int kv_##name##_cuda(const float* in, float* out, int64_t n, int device, void* stream) { \
        name<<<1, 64>>>(in, out);                                                                       \
        return cudaGetLastError();                                                                      \
    }

// Two tiles of 32 x 32, one of each warp, transposed by way of shared memory.
template <int PADDING>
__device__ void transpose(const float* in, float* out) {
    __shared__ float tiles[2][32][32 + PADDING];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (unsigned row = 0; row < 32; ++row) tiles[warp][row][lane] = in[warp * 1024 + row * 32 + lane];
    __syncwarp();
    for (unsigned row = 0; row < 32; ++row) out[warp * 1024 + row * 32 + lane] = tiles[warp][lane][row];
}
__global__ void padded(const float* in, float* out) { transpose<1>(in, out); }
__global__ void unpadded(const float* in, float* out) { transpose<0>(in, out); }
ENTRY_POINT(padded)
ENTRY_POINT(unpadded)

// Each thread has a row of 32 items: neighbouring lanes are 128 bytes apart.
__global__ void by_rows(const float* in, float* out) {
    for (unsigned i = 0; i < 32; ++i) out[i * 64 + threadIdx.x] = in[threadIdx.x * 32 + i];
}
__global__ void by_vectors_of_rows(const float* in, float* out) {
    for (unsigned i = 0; i < 32; i += 4)
        *reinterpret_cast<float4*>(out + i * 64 + threadIdx.x * 4) =
            *reinterpret_cast<const float4*>(in + threadIdx.x * 32 + i);
}
ENTRY_POINT(by_rows)
ENTRY_POINT(by_vectors_of_rows)

// 16 bytes for each of 64 threads by asynchronous copies, to rows of 16 + PADDING items with 64 bytes in each.
template <int PADDING>
__device__ void copy_rows(const float* in, float* out) {
    __shared__ __align__(16) float rows[16][16 + PADDING];
    float* const own = &rows[threadIdx.x / 4][threadIdx.x % 4 * 4];
    for (unsigned i = 0; i < 2048; i += 256) {
        __pipeline_memcpy_async(own, in + i + threadIdx.x * 4, 16);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        for (unsigned j = 0; j < 4; ++j) out[i + j * 64 + threadIdx.x] = own[j];
    }
}
__global__ void copies(const float* in, float* out) { copy_rows<0>(in, out); }
__global__ void copies_to_padded_rows(const float* in, float* out) { copy_rows<4>(in, out); }
ENTRY_POINT(copies)
ENTRY_POINT(copies_to_padded_rows)
