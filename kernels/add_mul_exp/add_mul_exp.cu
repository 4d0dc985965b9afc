// out = exp((x + y) * 2), float32, element by element. CUDA.
//
// Cost: 3 FLOP and 12 bytes per element (two reads, one write): bound by memory on every GPU.
// Versions:
//   1  one element per thread and step of a grid-stride loop
//   2  four elements per access (16 bytes) where the pointers allow it: a quarter of the memory instructions
//   3  a thread asks for four vectors of x and of y before it uses the first: 128 bytes on their way, not 32
//   4  one wave of blocks that go on to the next part, instead of a block for each part; four elements at a time on
//      their way also where the pointers allow no vectors
//   5  streaming hints: what is read and written once is the first to leave the caches again
// expf, not __expf: at most 1 ulp from the true value (CUDA's published bound), and NaN and infinities as
// IEEE wants. Pointers are not __restrict__: out may be x or y itself. Each element is read before it is
// written, by one thread.
#include "../_native/kv_cuda.h"

constexpr int THREADS = 256;
constexpr int BLOCKS = 4;  // that a multiprocessor runs at once: up to 64 registers per thread
constexpr int AHEAD = 4;   // accesses to each input that a thread has on their way; a block's are neighbours

static __device__ float add_mul_exp(float x, float y) { return expf((x + y) * 2.0f); }

static __device__ float4 add_mul_exp(float4 x, float4 y) {
    return make_float4(add_mul_exp(x.x, y.x), add_mul_exp(x.y, y.y), add_mul_exp(x.z, y.z),
                       add_mul_exp(x.w, y.w));
}

// A Word is what an access moves, one element or four. `words` of them.
template <class Word>
static __device__ void run(const Word* x, const Word* y, Word* out, int64_t words) {
    const int64_t step = int64_t{gridDim.x} * THREADS * AHEAD;
    for (int64_t i = int64_t{blockIdx.x} * THREADS * AHEAD + threadIdx.x; i < words; i += step) {
        Word u[AHEAD], v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < words)
                u[j] = __ldcs(x + i + j * THREADS), v[j] = __ldcs(y + i + j * THREADS);
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * THREADS < words) __stcs(out + i + j * THREADS, add_mul_exp(u[j], v[j]));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    kv_add_mul_exp_scalar(const float* x, const float* y, float* out, int64_t n) {
    run(x, y, out, n);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    kv_add_mul_exp_vector(const float* x, const float* y, float* out, int64_t n) {
    run(reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(y),
        reinterpret_cast<float4*>(out), n / 4);
    // Up to three elements are left after the vectors.
    const int64_t last = n / 4 * 4 + int64_t{blockIdx.x} * THREADS + threadIdx.x;
    if (last < n) out[last] = add_mul_exp(x[last], y[last]);
}

extern "C" KV_API int kv_add_mul_exp_cuda(const float* x, const float* y, float* out, int64_t n, int device,
                                          void* stream) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !y || !out) return KV_ERROR_POINTER;
    const bool vector = kv::is_aligned(x, 16) && kv::is_aligned(y, 16) && kv::is_aligned(out, 16);
    auto* const kernel = vector ? kv_add_mul_exp_vector : kv_add_mul_exp_scalar;
    return kv::on_processors(device, [=](int processors) {
        const unsigned grid =
            kv::grid_of_one_wave(n, (vector ? 4 : 1) * AHEAD * THREADS, processors * BLOCKS);
        kernel<<<grid, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(x, y, out, n);
    });
}
