// out = exp((x + y) * 2), element by element, in float32; float16 and bfloat16 are computed in float32 and
// rounded once, at the end. CUDA.
//
// Cost: 3 FLOP per element; two items read, one written, 12 bytes of float32, 6 of the others: bound by
// memory on every GPU.
// Versions:
//   1  one element per thread and step of a grid-stride loop
//   2  four elements per access (16 bytes; eight of two bytes) where the pointers allow it: a quarter of the
//      memory instructions
//   3  a thread asks for four vectors of x and of y before it uses the first: 128 bytes on their way, not 32
//   4  one wave of blocks that go on to the next part, instead of a block for each part; four elements at a
//      time on their way also where the pointers allow no vectors
//   5  streaming hints: what is read and written once is the first to leave the caches again
//   6  no such hint for an output that stays in the second-level cache, for the next kernel
//   7  a block for each part again, of two accesses a thread instead of four, and no hint for what is read. On an
//      H200 50M take 141 us, which is 4.26 TB/s, and 6 took 164
// expf, not __expf: at most 1 ulp from the true value (CUDA's published bound), and NaN and infinities as
// IEEE wants. Pointers are not __restrict__: out may be x or y itself. Each element is read before it is
// written, by one thread.
// One PTX from sm_80 on (CMakeLists.txt): newer GPUs can do nothing more that is used here.
#include "../_native/kv_cuda.h"
#include "../_native/kv_cuda_half.h"

constexpr int THREADS = 256;
constexpr int BLOCKS = 8;  // that a multiprocessor runs at once: all threads it can have, of 32 registers
constexpr int AHEAD = 2;   // accesses to each input that a thread has on their way; a block's are neighbours

template <class Item>
static __device__ Item add_mul_exp(Item x, Item y) {
    Item out;
    kv::round_to(out, expf((kv::number(x) + kv::number(y)) * 2.0f));
    return out;
}

template <class Item, class Word>
static __device__ Word add_mul_exp_items(const Word& x, const Word& y) {
    kv::Items<Item, Word> u(x);
    const kv::Items<Item, Word> v(y);
#pragma unroll
    for (int i = 0; i < u.COUNT; ++i) u.item[i] = add_mul_exp(u.item[i], v.item[i]);
    return u.word();
}

// A Word is what an access moves: one item or 16 bytes of them.
template <class Item, class Word>
static __device__ void run(const Item* x, const Item* y, Item* out, int64_t n, bool outgrows) {
    constexpr int COUNT = sizeof(Word) / sizeof(Item);
    const auto *x_words = reinterpret_cast<const Word*>(x), *y_words = reinterpret_cast<const Word*>(y);
    auto* const out_words = reinterpret_cast<Word*>(out);
    const int64_t words = n / COUNT, i = int64_t{blockIdx.x} * THREADS * AHEAD + threadIdx.x;
    Word u[AHEAD], v[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j)
        if (i + j * THREADS < words) u[j] = x_words[i + j * THREADS], v[j] = y_words[i + j * THREADS];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j)
        if (i + j * THREADS < words)
            kv::store(out_words + i + j * THREADS, add_mul_exp_items<Item>(u[j], v[j]), outgrows);
    // Fewer items than a word has are left.
    const int64_t last = words * COUNT + int64_t{blockIdx.x} * THREADS + threadIdx.x;
    if (last < n) out[last] = add_mul_exp(x[last], y[last]);
}

#define KV_ADD_MUL_EXP_KERNEL(name, Item, Word)                                   \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                 \
        name(const Item* x, const Item* y, Item* out, int64_t n, bool outgrows) { \
        run<Item, Word>(x, y, out, n, outgrows);                                  \
    }
KV_ADD_MUL_EXP_KERNEL(kv_add_mul_exp_scalar, float, float)
KV_ADD_MUL_EXP_KERNEL(kv_add_mul_exp_vector, float, float4)
KV_ADD_MUL_EXP_KERNEL(kv_add_mul_exp_float16_scalar, kv::Float16, unsigned short)
KV_ADD_MUL_EXP_KERNEL(kv_add_mul_exp_float16_vector, kv::Float16, uint4)
KV_ADD_MUL_EXP_KERNEL(kv_add_mul_exp_bfloat16_scalar, kv::Bfloat16, unsigned short)
KV_ADD_MUL_EXP_KERNEL(kv_add_mul_exp_bfloat16_vector, kv::Bfloat16, uint4)
#undef KV_ADD_MUL_EXP_KERNEL

template <class Item>
using Kernel = void (*)(const Item*, const Item*, Item*, int64_t, bool);

template <class Item>
static int start(Kernel<Item> scalar, Kernel<Item> vector, const Item* x, const Item* y, Item* out, int64_t n,
                 int device, void* stream) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !y || !out) return KV_ERROR_POINTER;
    const bool by_vectors = kv::is_aligned(x, 16) && kv::is_aligned(y, 16) && kv::is_aligned(out, 16);
    const int count = by_vectors ? 16 / sizeof(Item) : 1;
    const Kernel<Item> kernel = by_vectors ? vector : scalar;
    const bool outgrows = kv::outgrows_cache(n * static_cast<int64_t>(sizeof(Item)), device);
    const unsigned grid = kv::blocks_for(n, int64_t{count} * AHEAD * THREADS);
    return kv::on_device(device, [=] {
        kernel<<<grid, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(x, y, out, n, outgrows);
    });
}

extern "C" KV_API int kv_add_mul_exp_cuda(const float* x, const float* y, float* out, int64_t n, int device,
                                          void* stream) {
    return start(kv_add_mul_exp_scalar, kv_add_mul_exp_vector, x, y, out, n, device, stream);
}

extern "C" KV_API int kv_add_mul_exp_float16_cuda(const kv::Float16* x, const kv::Float16* y,
                                                  kv::Float16* out, int64_t n, int device, void* stream) {
    return start(kv_add_mul_exp_float16_scalar, kv_add_mul_exp_float16_vector, x, y, out, n, device, stream);
}

extern "C" KV_API int kv_add_mul_exp_bfloat16_cuda(const kv::Bfloat16* x, const kv::Bfloat16* y,
                                                   kv::Bfloat16* out, int64_t n, int device, void* stream) {
    return start(kv_add_mul_exp_bfloat16_scalar, kv_add_mul_exp_bfloat16_vector, x, y, out, n, device,
                 stream);
}
