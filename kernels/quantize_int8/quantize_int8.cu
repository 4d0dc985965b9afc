// out = int8(clamp(round_half_even(x / scale) + zero_point, -128, 127)), float32 -> int8, element by element;
// x may also be float16 or bfloat16, which are made float32 first. CUDA.
//
// The same integers as quantize_int8.cpp: a true division, halves rounded to even. NaN gives 0. (PyTorch's
// own CUDA division by a Python number multiplies with the reciprocal instead, and may differ from this by
// one step.)
// Cost: 5 FLOP and 5 bytes per element (one read of 4, one write of 1), 3 bytes of the others.
// Versions:
//   1  one element per thread and step of a grid-stride loop
//   2  four elements per access (read 16 bytes, write 4; of two bytes eight) where the pointers allow it
//   3  a thread asks for four vectors before it uses the first: 64 bytes on their way, not 16
//   4  the quotient from the reciprocal of scale and two corrections: 5 instructions, no branch, where the
//      division has about 10 and a branch per element
//   5  one wave of blocks that go on to the next part, instead of a block for each part; four elements at a
//      time on their way also where the pointers allow no vectors
//   6  NaN is exchanged for a number that becomes 0, instead of a branch around its element
//   7  streaming hints: what is read and written once is the first to leave the caches again
//   8  no such hint for an output that stays in the second-level cache, for the next kernel
//   9  a block for each part again, of two accesses a thread instead of four, and no hint for what is read. On an
//      H200 50M take 59.8 us, which is 4.18 TB/s, and 8 took 71.2
// One PTX from sm_80 on (CMakeLists.txt): newer GPUs can do nothing more that is used here.
#include "../_native/kv_cuda.h"
#include "../_native/kv_cuda_half.h"
#include "../_native/kv_cuda_quotient.h"

constexpr int THREADS = 256;
constexpr int BLOCKS = 8;  // that a multiprocessor runs at once: all threads it can have, of 32 registers
constexpr int AHEAD = 2;   // accesses that a thread has on their way; a block's are neighbours

// x / scale, rounded as int8 needs it, for any scale: the IEEE division whatever the compiler's flags.
struct Division {
    float scale, zero_point;

    __device__ signed char operator()(float x) const {
        const float value = __fadd_rn(rintf(__fdiv_rn(x, scale)), zero_point);
        if (isnan(value)) return 0;  // fminf and fmaxf would drop the NaN
        return static_cast<signed char>(fminf(fmaxf(value, -128.0f), 127.0f));
    }
};

// The same integers without a division, for safe scales. Bounds before it keep infinities out, and the
// integer within int8: low and high lie a quarter beyond -128 and 127, so they round to these.
struct Reciprocal {
    float scale, reciprocal, low, high, nought;
    int zero_point;

    Reciprocal(float scale_, int zero_point_)
        : scale(scale_),
          reciprocal(1.0f / scale_),
          low((-128.25f - static_cast<float>(zero_point_)) * scale_),
          high((127.25f - static_cast<float>(zero_point_)) * scale_),
          nought(static_cast<float>(-zero_point_) * scale_),
          zero_point(zero_point_) {}

    __device__ signed char operator()(float x) const {
        const float number = isnan(x) ? nought : x;  // fmaxf would make low of NaN
        const float bounded = fminf(fmaxf(number, low), high);
        const float quotient = kv::quotient(bounded, scale, reciprocal);
        return static_cast<signed char>(__float2int_rn(quotient) + zero_point);
    }
};

// A Word is what an access reads, one item or 16 bytes of them; Bytes is what becomes of it.
template <class Item, class Word, class Bytes, class Quantize>
static __device__ void run(const Item* x, signed char* out, int64_t n, const Quantize& quantize,
                           bool outgrows) {
    constexpr int COUNT = sizeof(Word) / sizeof(Item);
    const auto* const x_words = reinterpret_cast<const Word*>(x);
    auto* const out_words = reinterpret_cast<Bytes*>(out);
    const int64_t words = n / COUNT, i = int64_t{blockIdx.x} * THREADS * AHEAD + threadIdx.x;
    Word u[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j)
        if (i + j * THREADS < words) u[j] = x_words[i + j * THREADS];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j)
        if (i + j * THREADS < words)
            kv::store(out_words + i + j * THREADS, kv::bytes_of<Item, Bytes>(u[j], quantize), outgrows);
    // Fewer items than a word has are left.
    const int64_t last = words * COUNT + int64_t{blockIdx.x} * THREADS + threadIdx.x;
    if (last < n) out[last] = quantize(kv::number(x[last]));
}

#define KV_QUANTIZE_INT8_KERNEL(name, Item, Word, Bytes, Quantize)                                 \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                  \
        name(const Item* x, signed char* out, int64_t n, const Quantize quantize, bool outgrows) { \
        run<Item, Word, Bytes>(x, out, n, quantize, outgrows);                                     \
    }
KV_QUANTIZE_INT8_KERNEL(kv_quantize_int8_scalar, float, float, unsigned char, Division)
KV_QUANTIZE_INT8_KERNEL(kv_quantize_int8_vector, float, float4, unsigned, Reciprocal)
KV_QUANTIZE_INT8_KERNEL(kv_quantize_int8_float16_scalar, kv::Float16, unsigned short, unsigned char, Division)
KV_QUANTIZE_INT8_KERNEL(kv_quantize_int8_float16_vector, kv::Float16, uint4, uint2, Reciprocal)
KV_QUANTIZE_INT8_KERNEL(kv_quantize_int8_bfloat16_scalar, kv::Bfloat16, unsigned short, unsigned char,
                        Division)
KV_QUANTIZE_INT8_KERNEL(kv_quantize_int8_bfloat16_vector, kv::Bfloat16, uint4, uint2, Reciprocal)
#undef KV_QUANTIZE_INT8_KERNEL

template <class Item, class Quantize>
using Kernel = void (*)(const Item*, signed char*, int64_t, Quantize, bool);

template <class Item>
static int start(Kernel<Item, Division> scalar, Kernel<Item, Reciprocal> vector, const Item* x, int8_t* out,
                 int64_t n, float scale, int zero_point, int device, void* stream) {
    constexpr int COUNT = 16 / sizeof(Item);
    if (n < 0) return KV_ERROR_SIZE;
    if (n == 0) return KV_OK;
    if (!x || !out) return KV_ERROR_POINTER;
    const auto queue = static_cast<cudaStream_t>(stream);
    const Reciprocal by_reciprocal(scale, zero_point);
    const Division by_division{scale, static_cast<float>(zero_point)};
    const bool outgrows = kv::outgrows_cache(n, device);
    return kv::on_device(device, [=] {
        const auto grid = [=](int items) {  // of so many per access
            return kv::blocks_for(n, int64_t{items} * AHEAD * THREADS);
        };
        if (kv::is_safe_divisor(scale) && kv::is_aligned(x, 16) && kv::is_aligned(out, COUNT))
            vector<<<grid(COUNT), THREADS, 0, queue>>>(x, out, n, by_reciprocal, outgrows);
        else
            scalar<<<grid(1), THREADS, 0, queue>>>(x, out, n, by_division, outgrows);
    });
}

extern "C" KV_API int kv_quantize_int8_cuda(const float* x, int8_t* out, int64_t n, float scale,
                                            int zero_point, int device, void* stream) {
    return start(kv_quantize_int8_scalar, kv_quantize_int8_vector, x, out, n, scale, zero_point, device,
                 stream);
}

extern "C" KV_API int kv_quantize_int8_float16_cuda(const kv::Float16* x, int8_t* out, int64_t n, float scale,
                                                    int zero_point, int device, void* stream) {
    return start(kv_quantize_int8_float16_scalar, kv_quantize_int8_float16_vector, x, out, n, scale,
                 zero_point, device, stream);
}

extern "C" KV_API int kv_quantize_int8_bfloat16_cuda(const kv::Bfloat16* x, int8_t* out, int64_t n,
                                                     float scale, int zero_point, int device, void* stream) {
    return start(kv_quantize_int8_bfloat16_scalar, kv_quantize_int8_bfloat16_vector, x, out, n, scale,
                 zero_point, device, stream);
}
