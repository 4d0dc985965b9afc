// Each row of a matrix quantised with a scale of its own: scale = max |x| of the row / 127, and out =
// int8(round_half_even(x / scale)), from -127 to 127. x: rows x columns of float32, float16 or bfloat16;
// scales: rows of float32. CUDA.
//
// The same numbers as quantize_int8_rows.cpp.
// Cost: 6 FLOP per element; an item read and a byte written per element, 4 bytes per row: bound by memory on
// every GPU.
// Versions:
//   1  a block for each row, or a warp where it is short, which reads the row once and keeps it in registers
//      until its scale is known (a row of more than 32 KiB is read again); the largest |x| by integer
//      instructions of a warp; quotients without divisions
// One PTX from sm_80 on (CMakeLists.txt): newer GPUs can do nothing more that is used here.
#include "../_native/kv_cuda.h"
#include "../_native/kv_cuda_half.h"
#include "../_native/kv_cuda_quotient.h"

constexpr int THREADS = 256, WARP = 32;
constexpr int BLOCKS = 4;  // that a multiprocessor runs at once: up to 64 registers per thread
constexpr int AHEAD = 8;   // words that a thread keeps of a row

// Bits of the largest |x|. As integers the bits of numbers that are not negative are ordered as the numbers
// are, infinity above them all, and NaN above it: so a NaN is not lost.
template <class Item, class Word>
static __device__ unsigned largest(const Word (&words)[AHEAD]) {
    unsigned most = 0;
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
        const kv::Items<Item, Word> x(words[j]);
#pragma unroll
        for (int i = 0; i < x.COUNT; ++i)
            most = max(most, __float_as_uint(kv::number(x.item[i])) & 0x7fffffffu);
    }
    return most;
}

static __device__ unsigned largest_of_warp(unsigned most) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) most = max(most, __shfl_xor_sync(~0u, most, lanes));
    return most;
#else
    return __reduce_max_sync(~0u, most);
#endif
}

// The largest of what the PER_ROW threads of a row have. A block's threads write to one of two buffers in
// turn: who is at the next row's barrier has read this row's.
template <int PER_ROW>
static __device__ unsigned largest_of_row(unsigned most, int buffer) {
    most = largest_of_warp(most);
    if (PER_ROW == WARP) return most;
    __shared__ unsigned of_warps[2][THREADS / WARP];
    if (threadIdx.x % WARP == 0) of_warps[buffer][threadIdx.x / WARP] = most;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREADS / WARP; ++i) most = max(most, of_warps[buffer][i]);
    return most;
}

// |x| is at most 127 times the scale, but for rounding.
struct BySafeScale {
    float scale, reciprocal;

    __device__ signed char operator()(float x) const {
        return static_cast<signed char>(__float2int_rn(kv::quotient(x, scale, reciprocal)));
    }
};

// For scales that are 0, tiny, huge, infinite or NaN.
static __device__ signed char divided(float x, float scale) {
    const float value = rintf(__fdiv_rn(x, scale));
    return isnan(value) ? 0 : static_cast<signed char>(fminf(fmaxf(value, -127.0f), 127.0f));
}

// Up to AHEAD words of a row, from number `first` on; zeros behind its end.
template <int PER_ROW, class Word>
static __device__ void load(Word (&kept)[AHEAD], const Word* row, int64_t first, int64_t words) {
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) kept[j] = first + j * PER_ROW < words ? row[first + j * PER_ROW] : Word{};
}

template <class Item, class Bytes, int PER_ROW, class Word>
static __device__ void write(Bytes* out, const Word* row, Word (&kept)[AHEAD], int64_t words, float scale) {
    const BySafeScale quantize{scale, __frcp_rn(scale)};
    for (int64_t i = threadIdx.x % PER_ROW; i < words; i += PER_ROW * AHEAD) {
        if (words > PER_ROW * AHEAD) load<PER_ROW>(kept, row, i, words);
#pragma unroll
        for (int j = 0; j < AHEAD; ++j)
            if (i + j * PER_ROW < words) out[i + j * PER_ROW] = kv::bytes_of<Item, Bytes>(kept[j], quantize);
    }
}

// Item by item: such rows are rare, and 64 divisions in a row would be most of the code.
template <class Item, int PER_ROW>
static __device__ void write_divided(signed char* out, const Item* row, int64_t columns, float scale) {
#pragma unroll 1
    for (int64_t i = threadIdx.x % PER_ROW; i < columns; i += PER_ROW)
        out[i] = divided(kv::number(row[i]), scale);
}

// A Word is what an access reads, one item or 16 bytes of them, a whole number of which is a row; Bytes is
// what becomes of it. PER_ROW threads have a row: a warp or the block.
template <class Item, class Word, class Bytes, int PER_ROW>
static __device__ void run(const Item* x, signed char* out, float* scales, int64_t rows, int64_t columns) {
    const int64_t words = columns / kv::Items<Item, Word>::COUNT;
    const int64_t step = int64_t{gridDim.x} * (THREADS / PER_ROW);
    int buffer = 0;
    for (int64_t r = (int64_t{blockIdx.x} * THREADS + threadIdx.x) / PER_ROW; r < rows; r += step) {
        const auto* const row = reinterpret_cast<const Word*>(x + r * columns);
        auto* const bytes = reinterpret_cast<Bytes*>(out + r * columns);
        Word kept[AHEAD];
        unsigned most = 0;
        for (int64_t i = threadIdx.x % PER_ROW; i < words; i += PER_ROW * AHEAD) {
            load<PER_ROW>(kept, row, i, words);
            most = max(most, largest<Item>(kept));
        }
        most = largest_of_row<PER_ROW>(most, buffer);
        buffer ^= 1;
        const float scale = __fdiv_rn(__uint_as_float(most), 127.0f);
        if (threadIdx.x % PER_ROW == 0) scales[r] = scale;
        if (kv::is_safe_divisor(scale))
            write<Item, Bytes, PER_ROW>(bytes, row, kept, words, scale);
        else
            write_divided<Item, PER_ROW>(out + r * columns, x + r * columns, columns, scale);
    }
}

template <class Item>
using Kernel = void (*)(const Item*, signed char*, float*, int64_t, int64_t);

#define KV_KERNEL(name, Item, Word, Bytes, PER_ROW)                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                             \
        name(const Item* x, signed char* out, float* scales, int64_t rows, int64_t columns) { \
        run<Item, Word, Bytes, PER_ROW>(x, out, scales, rows, columns);                       \
    }
#define KV_KERNELS(name, Item, ScalarWord, Word, Bytes)                                       \
    KV_KERNEL(name##_scalar_warp, Item, ScalarWord, unsigned char, WARP)                      \
    KV_KERNEL(name##_scalar_block, Item, ScalarWord, unsigned char, THREADS)                  \
    KV_KERNEL(name##_vector_warp, Item, Word, Bytes, WARP)                                    \
    KV_KERNEL(name##_vector_block, Item, Word, Bytes, THREADS)                                \
    constexpr Kernel<Item> name##_kernels[2][2] = {{name##_scalar_warp, name##_scalar_block}, \
                                                   {name##_vector_warp, name##_vector_block}};
KV_KERNELS(kv_quantize_int8_rows, float, float, float4, unsigned)
KV_KERNELS(kv_quantize_int8_rows_float16, kv::Float16, unsigned short, uint4, uint2)
KV_KERNELS(kv_quantize_int8_rows_bfloat16, kv::Bfloat16, unsigned short, uint4, uint2)
#undef KV_KERNELS
#undef KV_KERNEL

template <class Item>
static int start(const Kernel<Item> (&kernels)[2][2], const Item* x, int8_t* out, float* scales, int64_t rows,
                 int64_t columns, int device, void* stream) {
    constexpr int COUNT = 16 / sizeof(Item);
    if (rows < 0 || columns < 0) return KV_ERROR_SIZE;
    if (rows == 0) return KV_OK;
    if (!scales || (columns > 0 && (!x || !out))) return KV_ERROR_POINTER;
    const bool by_vectors = columns % COUNT == 0 && kv::is_aligned(x, 16) && kv::is_aligned(out, COUNT);
    const bool by_blocks = columns / (by_vectors ? COUNT : 1) > WARP * AHEAD;
    const Kernel<Item> kernel = kernels[by_vectors][by_blocks];
    return kv::on_processors(device, [=](int processors) {
        const unsigned grid = kv::grid_of_one_wave(rows, by_blocks ? 1 : THREADS / WARP, processors * BLOCKS);
        kernel<<<grid, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(x, out, scales, rows, columns);
    });
}

extern "C" KV_API int kv_quantize_int8_rows_cuda(const float* x, int8_t* out, float* scales, int64_t rows,
                                                 int64_t columns, int device, void* stream) {
    return start(kv_quantize_int8_rows_kernels, x, out, scales, rows, columns, device, stream);
}

extern "C" KV_API int kv_quantize_int8_rows_float16_cuda(const kv::Float16* x, int8_t* out, float* scales,
                                                         int64_t rows, int64_t columns, int device,
                                                         void* stream) {
    return start(kv_quantize_int8_rows_float16_kernels, x, out, scales, rows, columns, device, stream);
}

extern "C" KV_API int kv_quantize_int8_rows_bfloat16_cuda(const kv::Bfloat16* x, int8_t* out, float* scales,
                                                          int64_t rows, int64_t columns, int device,
                                                          void* stream) {
    return start(kv_quantize_int8_rows_bfloat16_kernels, x, out, scales, rows, columns, device, stream);
}
