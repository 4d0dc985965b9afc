// C = A B, row-major float32: A is m x k, B is k x n, C is m x n. CUDA.
//
// Cost: 2 m n k FLOP; each matrix crosses memory at least once: 4 (m k + k n + m n) bytes.
// Versions:
//   1  16 x 16 tiles of A and B in shared memory, one element of C per thread
#include "../_native/kv_cuda.h"

constexpr int TILE = 16;

extern "C" __global__ void kv_matmul_tiled(const float* a, const float* b, float* c, int64_t m, int64_t n,
                                           int64_t k) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    const int64_t row = int64_t{blockIdx.x} * TILE + threadIdx.y;
    const int64_t column = int64_t{blockIdx.y} * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int64_t p = 0; p < k; p += TILE) {
        const int64_t from_a = p + threadIdx.x;
        const int64_t from_b = p + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < m && from_a < k ? a[row * k + from_a] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = from_b < k && column < n ? b[from_b * n + column] : 0.0f;
        __syncthreads();
        for (int q = 0; q < TILE; ++q) sum += tile_a[threadIdx.y][q] * tile_b[q][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" KV_API int kv_matmul_cuda(const float* a, const float* b, float* c, int64_t m, int64_t n,
                                     int64_t k, int device, void* stream) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if (m * n == 0) return KV_OK;
    if ((k > 0 && (!a || !b)) || !c) return KV_ERROR_POINTER;
    return kv::on_device(device, [=] {
        const dim3 grid(static_cast<unsigned>((m + TILE - 1) / TILE),
                        static_cast<unsigned>((n + TILE - 1) / TILE));
        kv_matmul_tiled<<<grid, dim3(TILE, TILE), 0, static_cast<cudaStream_t>(stream)>>>(a, b, c, m, n, k);
    });
}
