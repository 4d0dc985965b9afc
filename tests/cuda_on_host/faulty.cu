// Kernels with one fault each, which the engine must find, and a right one beside most of them. in and out have
// n floats; a block has 64 threads.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define ENTRY_POINT(name, blocks)                                                                       \
    extern "C" int kv_##name##_cuda(const float* in, float* out, int64_t n, int device, void* stream) { \
        if (cudaSetDevice(device) != cudaSuccess) return 1;                                             \
        name<<<blocks, 64, 0, static_cast<cudaStream_t>(stream)>>>(in, out, n);                         \
        return cudaSetDevice(0) != cudaSuccess;                                                         \
    }

// out = in reversed, by way of shared memory.
template <bool BARRIER>
__device__ void reverse_block(const float* in, float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    if (BARRIER) __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
__global__ void barrier(const float* in, float* out, int64_t) { reverse_block<true>(in, out); }
__global__ void no_barrier(const float* in, float* out, int64_t) { reverse_block<false>(in, out); }
ENTRY_POINT(barrier, 1)
ENTRY_POINT(no_barrier, 1)

// The tile is written again while others still read it.
template <bool BARRIER>
__device__ void rotate_twice(const float* in, float* out) {
    __shared__ float tile[64];
    float value = in[threadIdx.x];
    for (int i = 0; i < 2; ++i) {
        tile[threadIdx.x] = value;
        __syncthreads();
        value = tile[(threadIdx.x + 1) % 64];
        if (BARRIER) __syncthreads();
    }
    out[threadIdx.x] = value;
}
__global__ void barrier_behind(const float* in, float* out, int64_t) { rotate_twice<true>(in, out); }
__global__ void no_barrier_behind(const float* in, float* out, int64_t) { rotate_twice<false>(in, out); }
ENTRY_POINT(barrier_behind, 1)
ENTRY_POINT(no_barrier_behind, 1)

// Lanes of a warp are no more in step than other threads are.
template <bool BARRIER>
__device__ void reverse_warp(const float* in, float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    if (BARRIER) __syncwarp();
    out[threadIdx.x] = tile[threadIdx.x ^ 31];
}
__global__ void warp_barrier(const float* in, float* out, int64_t) { reverse_warp<true>(in, out); }
__global__ void no_warp_barrier(const float* in, float* out, int64_t) { reverse_warp<false>(in, out); }
ENTRY_POINT(warp_barrier, 1)
ENTRY_POINT(no_warp_barrier, 1)

__global__ void reads_beyond(const float* in, float* out, int64_t) { out[threadIdx.x] = in[threadIdx.x + 1]; }
__global__ void reads_before(const float* in, float* out, int64_t) {
    out[threadIdx.x] = in[int64_t{threadIdx.x} - 1];
}
__global__ void writes_beyond(const float* in, float* out, int64_t n) {
    out[threadIdx.x] = 0;
    if (threadIdx.x == 3) out[n] = in[3];
}
__global__ void writes_to_the_input(const float* in, float*, int64_t) {
    const_cast<float*>(in)[threadIdx.x] = 0;
}
__global__ void reads_beyond_shared(const float* in, float* out, int64_t) {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = (&tile[0])[threadIdx.x + 1];
}
__global__ void reads_what_nobody_wrote(const float*, float* out, int64_t) {
    __shared__ float tile[64];
    out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void misaligned_vector(const float* in, float* out, int64_t) {
    const float4 four = *reinterpret_cast<const float4*>(in + threadIdx.x);
    out[threadIdx.x] = four.x;
}
__global__ void half_a_barrier(const float* in, float* out, int64_t) {
    out[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x < 10) __syncthreads();
}
__global__ void barrier_among_those_who_stay(const float* in, float* out, int64_t) {
    if (threadIdx.x >= 40) return;
    __syncthreads();
    out[threadIdx.x] = in[threadIdx.x];
}
__global__ void half_a_shuffle(const float* in, float* out, int64_t) {
    float value = in[threadIdx.x];
    if (threadIdx.x % 2 == 0) value = __shfl_xor_sync(~0u, value, 2);
    out[threadIdx.x] = value;
}
__global__ void all_blocks_write_the_same(const float* in, float* out, int64_t) {
    out[threadIdx.x] = in[threadIdx.x];
}
__global__ void reads_what_the_next_block_writes(const float* in, float* out, int64_t n) {
    const int64_t i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) out[i] = in[i] + (i + 64 < n ? out[i + 64] : 0.0f);
}
ENTRY_POINT(reads_beyond, 1)
ENTRY_POINT(reads_before, 1)
ENTRY_POINT(writes_beyond, 1)
ENTRY_POINT(writes_to_the_input, 1)
ENTRY_POINT(reads_beyond_shared, 1)
ENTRY_POINT(reads_what_nobody_wrote, 1)
ENTRY_POINT(misaligned_vector, 1)
ENTRY_POINT(half_a_barrier, 1)
ENTRY_POINT(barrier_among_those_who_stay, 1)
ENTRY_POINT(half_a_shuffle, 1)
ENTRY_POINT(all_blocks_write_the_same, 2)
ENTRY_POINT(reads_what_the_next_block_writes, 2)

template <bool WAIT>
__device__ void copy_by_four(const float* in, float* out) {
    __shared__ __align__(16) float tile[64];
    if (threadIdx.x < 16) __pipeline_memcpy_async(tile + threadIdx.x * 4, in + threadIdx.x * 4, 16);
    __pipeline_commit();
    if (WAIT) __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
__global__ void copy_awaited(const float* in, float* out, int64_t) { copy_by_four<true>(in, out); }
__global__ void copy_not_awaited(const float* in, float* out, int64_t) { copy_by_four<false>(in, out); }
ENTRY_POINT(copy_awaited, 1)
ENTRY_POINT(copy_not_awaited, 1)

__global__ void leaves_another_device(const float*, float*, int64_t) {}
extern "C" int kv_leaves_another_device_cuda(const float* in, float* out, int64_t n, int, void*) {
    cudaSetDevice(1);
    leaves_another_device<<<1, 64>>>(in, out, n);
    return cudaGetLastError();
}
