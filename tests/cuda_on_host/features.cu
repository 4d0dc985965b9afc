// What of CUDA the engine has and our kernels may use, each in a small kernel whose result is known.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>

namespace wmma = nvcuda::wmma;

// out = sums of in by warps (shuffles down), of the block (shared memory), and lanes with in > 0 (a vote).
__global__ void sums(const float* in, float* out) {
    __shared__ float of_warps[2];
    float sum = in[threadIdx.x];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(~0u, sum, lanes);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    const unsigned positive = __ballot_sync(~0u, in[threadIdx.x] > 0);
    const bool any = __any_sync(~0u, in[threadIdx.x] > 0), all = __all_sync(~0u, in[threadIdx.x] > 0);
    float most = in[threadIdx.x];
    for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
    if (threadIdx.x % 32 != 31) return;
    float* const to = out + threadIdx.x / 32 * 6;
    to[0] = of_warps[threadIdx.x / 32];
    to[1] = of_warps[0] + of_warps[1];
    to[2] = most;
    to[3] = static_cast<float>(positive & 0xffffu);
    to[4] = any;
    to[5] = all;
}
extern "C" int kv_sums_cuda(const float* in, float* out, int, void*) {
    sums<<<1, 64>>>(in, out);
    return cudaGetLastError();
}

// out = in + 1 by a template over dynamic shared memory, three-dimensional grid and block.
template <class Item, int ADDED>
__global__ void add(const Item* in, Item* out) {
    extern __shared__ Item tile[];
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
    tile[thread] = __ldg(in + i);
    __syncthreads();
    __stcs(out + i, tile[thread] + ADDED);
}
extern "C" int kv_add_cuda(const float* in, float* out, int shared_bytes, int, void*) {
    if (shared_bytes > 48 * 1024)
        cudaFuncSetAttribute(add<float, 1>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    add<float, 1><<<dim3(3, 2, 2), dim3(4, 3, 2), shared_bytes>>>(in, out);
    return cudaGetLastError();
}
extern "C" int kv_without_asking_cuda(const float* in, float* out, int, void*) {
    add<float, 2><<<1, 64, 48 * 1024 + 1>>>(in, out);
    return cudaGetLastError();
}
extern "C" int kv_grid_cuda(const float* in, float* out, unsigned x, unsigned y, unsigned block, int, void*) {
    add<float, 1><<<dim3(x, y), block, 4096>>>(in, out);
    return cudaGetLastError();
}

// Two numbers at a time rounded to float16 and bfloat16, their bits, and one of each made float32 again.
__global__ void halves(const float* in, unsigned short* of_float16, unsigned short* of_bfloat16,
                       float* back) {
    const unsigned i = threadIdx.x * 2;
    const __half2 two = __floats2half2_rn(in[i], in[i + 1]);
    const __nv_bfloat162 brief = __floats2bfloat162_rn(in[i], in[i + 1]);
    of_float16[i] = __half_as_ushort(two.x);
    of_float16[i + 1] = __half_as_ushort(two.y);
    of_bfloat16[i] = __bfloat16_as_ushort(brief.x);
    of_bfloat16[i + 1] = __bfloat16_as_ushort(brief.y);
    back[i] = __half22float2(two).x;
    back[i + 1] = __bfloat1622float2(brief).y;
}
extern "C" int kv_halves_cuda(const float* in, unsigned short* of_float16, unsigned short* of_bfloat16,
                              float* back, int64_t n, int, void*) {
    halves<<<1, static_cast<unsigned>(n / 2)>>>(in, of_float16, of_bfloat16, back);
    return cudaGetLastError();
}

__global__ void dot_products(const int* a, const int* b, int* c) {
    c[threadIdx.x] = __dp4a(a[threadIdx.x], b[threadIdx.x], c[threadIdx.x]);
}
extern "C" int kv_dot_products_cuda(const int* a, const int* b, int* c, int64_t n, int, void*) {
    dot_products<<<1, static_cast<unsigned>(n)>>>(a, b, c);
    return cudaGetLastError();
}

// c = 2 a b + c, of 16 x 32 (row-major) and 32 x 16 (column-major) numbers; stored row-major.
template <class Item, class Sum>
__global__ void tile_product(const Item* a, const Item* b, Sum* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, Item, wmma::row_major> a_tile;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, Item, wmma::col_major> b_tile;
    wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sum, before;
    wmma::fill_fragment(sum, Sum(0));
    wmma::load_matrix_sync(before, c, 16, wmma::mem_row_major);
    for (int k = 0; k < 32; k += 16) {
        wmma::load_matrix_sync(a_tile, a + k, 32);
        wmma::load_matrix_sync(b_tile, b + k, 32);
        wmma::mma_sync(sum, a_tile, b_tile, sum);
    }
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = 2 * sum.x[i] + before.x[i];
    __syncwarp();
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
extern "C" int kv_tile_float16_cuda(const __half* a, const __half* b, float* c, int, void*) {
    tile_product<__half, float><<<1, 32>>>(a, b, c);
    return cudaGetLastError();
}
extern "C" int kv_tile_bfloat16_cuda(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int, void*) {
    tile_product<__nv_bfloat16, float><<<1, 32>>>(a, b, c);
    return cudaGetLastError();
}
extern "C" int kv_tile_int8_cuda(const signed char* a, const signed char* b, int* c, int, void*) {
    tile_product<signed char, int><<<1, 32>>>(a, b, c);
    return cudaGetLastError();
}

// Two groups of copies under way, the older awaited first; of the last, half is zeros.
__global__ void pipelined(const float* in, float* out) {
    __shared__ __align__(16) float tiles[3][4];
    __pipeline_memcpy_async(tiles[0], in, 16);
    __pipeline_commit();
    __pipeline_memcpy_async(tiles[1], in + 4, 16);
    __pipeline_memcpy_async(tiles[2], in + 8, 16, 8);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    for (int i = 0; i < 4; ++i) out[i] = tiles[0][i];
    __pipeline_wait_prior(0);
    for (int i = 0; i < 4; ++i) out[4 + i] = tiles[1][i], out[8 + i] = tiles[2][i];
}
extern "C" int kv_pipelined_cuda(const float* in, float* out, int, void*) {
    pipelined<<<1, 1>>>(in, out);
    return cudaGetLastError();
}
