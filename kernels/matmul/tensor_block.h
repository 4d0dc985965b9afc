// Products on tensor cores by mma.sync, and what is done to each sum before it is stored: for matmul_tensor.cu, which
// says what was tried, and for kernels that are a product with something behind it. Compute capability 8.0 or higher.
#ifndef KV_MATMUL_TENSOR_BLOCK_H
#define KV_MATMUL_TENSOR_BLOCK_H

#include <string.h>

#include "chunks.h"
#include "copy_async.h"
#include "hopper.h"
#include "warp_mma.h"

namespace kv {

constexpr int TENSOR_THREADS = 128, TENSOR_STAGES = 4;
constexpr int CHUNKS = 4;  // of a row of A per pass: 32 steps of k of two bytes each, 64 of one

// One TILE x TILE block of C by 2 x 2 warps.
template <class T, int TILE, bool VECTOR, class Epilogue = Plain>
struct TensorBlock {
    using Sum = typename Product<T>::Sum;
    using Item = typename Product<T>::Item;
    static constexpr bool BYTES = sizeof(T) == 1;
    static constexpr int PER = CHUNK / sizeof(T);  // items of a chunk
    static constexpr int DEPTH = CHUNKS * PER;     // steps of k per pass
    static constexpr int WARP = TILE / 2, FRAGMENTS = WARP / 16;
    // A by rows; B by rows of k, but bytes by columns: tensor cores take four neighbours of k as one.
    static constexpr int ROWS_B = BYTES ? TILE : DEPTH, CHUNKS_B = BYTES ? CHUNKS : TILE / PER;
    using LayoutA = Layout<TILE, CHUNKS>;
    using LayoutB = Layout<ROWS_B, CHUNKS_B>;
    using Sums = Sum[FRAGMENTS][2 * FRAGMENTS][4];  // of 16 x 8 elements each

    static constexpr int STAGE = LayoutA::SIZE + LayoutB::SIZE;  // bytes
    static constexpr int SUM_ROW = TILE + 8;  // sums from a row to the next, when they lie in shared memory
    static constexpr int OF_STAGES = TENSOR_STAGES * STAGE, OF_SUMS = TILE * SUM_ROW * sizeof(Sum);
    static constexpr int SHARED = OF_STAGES > OF_SUMS ? OF_STAGES : OF_SUMS;

    using Piece = ColumnsOfRows<TILE, DEPTH>;  // what a thread takes of B when it must be transposed
    static constexpr int WIDTH = Piece::WIDTH;

    static __device__ Source<T> source_a(const T* a, int64_t m, int64_t k, int64_t top) {
        return {a, m, k, top + threadIdx.x / CHUNKS, threadIdx.x % CHUNKS * PER};
    }
    static __device__ Source<T> source_b(const T* b, int64_t k, int64_t n, int64_t left) {
        if constexpr (BYTES)
            return {b, k, n, Piece::quad() * 4, left + Piece::column()};
        else
            return {b, k, n, threadIdx.x / CHUNKS_B, left + threadIdx.x % CHUNKS_B * PER};
    }

    static __device__ void copy_chunk(char* to, const T* from, int64_t inside) {
        if constexpr (VECTOR) {
            copy_or_zero<CHUNK>(to, from, inside > 0);
        } else {
            uint32_t words[4];
            fetch<CHUNK, false>(words, from, inside);
            *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }

    template <int ROWS, int COUNT>
    static __device__ void copy_chunks(char* to, const Source<T>& source) {
        const int row = threadIdx.x / COUNT, chunk = threadIdx.x % COUNT;
        constexpr int AT_ONCE = VECTOR ? ROWS : 1;  // item by item a chunk is many loads already
#pragma unroll AT_ONCE
        for (int i = 0; i < ROWS; i += TENSOR_THREADS / COUNT)
            copy_chunk(to + Layout<ROWS, COUNT>::at(row, chunk) + Layout<ROWS, COUNT>::down(i),
                       source.from + i * source.stride, source.inside(i));
    }

    // Begins to fill a stage with the next pass; what must be transposed stays in `piece` until end_copies.
    static __device__ void begin_copies(char* stage, Source<T>& a, Source<T>& b, Piece& piece) {
        copy_chunks<TILE, CHUNKS>(stage, a);
        if constexpr (BYTES) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                fetch<WIDTH, VECTOR>(piece.words[i], b.from + i * b.stride, b.inside(i));
        } else {
            copy_chunks<ROWS_B, CHUNKS_B>(stage + LayoutA::SIZE, b);
        }
        __pipeline_commit();
        a.go_right(DEPTH);
        b.go_down(DEPTH);
    }

    // Threads of every other 16 columns swap the halves of theirs: else they would write to the former's banks.
    static __device__ void end_copies(char* stage, Piece& piece) {
        if constexpr (BYTES) {
            constexpr int HALF = WIDTH / 2;
            const bool swaps = Piece::column() / 16 % 2;
            const int half = swaps ? LayoutB::down(HALF) : 0;
            char* const to = stage + LayoutA::SIZE + LayoutB::at(Piece::column(), 0) + Piece::quad() * 4;
            auto& w = piece.words;
#pragma unroll
            for (int i = 0; i < WIDTH / 4; ++i) transpose(w[0][i], w[1][i], w[2][i], w[3][i]);
#pragma unroll
            for (int j = 0; j < WIDTH; ++j)
                *reinterpret_cast<uint32_t*>(to + LayoutB::at(j, 0) + (j & HALF ? -half : half)) =
                    swaps ? w[j % 4][(j ^ HALF) / 4] : w[j % 4][j / 4];
        }
    }

    static __device__ int warp_row() { return threadIdx.x / 32 / 2 * WARP; }
    static __device__ int warp_column() { return threadIdx.x / 32 % 2 * WARP; }

    // b: of the i-th 16 columns, the low and high 16 bytes of k of the first 8, then of the others.
    static __device__ void load_b(uint32_t (&b)[4], const char* stage, int i, int q) {
        const int lane = threadIdx.x % 32;
        if constexpr (BYTES) {
            const int column = warp_column() + lane % 8 + lane / 16 * 8;
            load_matrices(b, stage + LayoutB::at(column, q * 2 + lane / 8 % 2) + LayoutB::down(16 * i));
        } else {
            const int chunk = (warp_column() + 16 * i) / PER + lane / 16;
            load_transposed(b, stage + LayoutB::at(lane % 16, chunk) + LayoutB::down(16 * q));
        }
    }

    static __device__ void multiply(const char* stage, Sums& sums) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int q = 0; q < CHUNKS / 2; ++q) {
            uint32_t a[FRAGMENTS][4], b[FRAGMENTS][4];
#pragma unroll
            for (int i = 0; i < FRAGMENTS; ++i) {
                load_matrices(a[i], stage + LayoutA::at(warp_row() + lane % 16, q * 2 + lane / 16) +
                                        LayoutA::down(16 * i));
                load_b(b[i], stage + LayoutA::SIZE, i, q);
            }
#pragma unroll
            for (int i = 0; i < FRAGMENTS; ++i)
#pragma unroll
                for (int j = 0; j < 2 * FRAGMENTS; ++j)
                    multiply_add<T>(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }

    // Puts the sums into shared memory, row by row: from there a warp writes whole rows of C.
    static __device__ void place_sums(Sum* all, const Sums& sums) {
        struct alignas(2 * sizeof(Sum)) Two {
            Sum items[2];
        };
        const int lane = threadIdx.x % 32;
        const int top = warp_row() + lane / 4, left = warp_column() + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < FRAGMENTS; ++i)
#pragma unroll
            for (int j = 0; j < 2 * FRAGMENTS; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const Two two = {{sums[i][j][half * 2], sums[i][j][half * 2 + 1]}};
                    *reinterpret_cast<Two*>(all + (top + 16 * i + 8 * half) * SUM_ROW + left + 8 * j) = two;
                }
    }

    // Stores four sums, of which `of_columns` has what the epilogue needs of their columns.
    static __device__ void store4(Item* c, int64_t m, int64_t n, int64_t row, int64_t column, const Sum* from,
                                  const Epilogue& epilogue, const float (&of_columns)[4], bool outgrows) {
        struct alignas(4 * sizeof(Sum)) Four {
            Sum items[4];
        };
        if (row >= m || column >= n) return;
        const Four sums = *reinterpret_cast<const Four*>(from);
        Item rounded[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) round_to(rounded[i], epilogue(sums.items[i], of_columns[i]));
        Item* const to = c + row * n + column;
        if constexpr (VECTOR) {
            using Word = std::conditional_t<sizeof(Item) == 4, uint4, uint2>;
            Word word;
            memcpy(&word, rounded, sizeof word);
            store(reinterpret_cast<Word*>(to), word, outgrows);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (column + i < n) to[i] = rounded[i];
        }
    }

    static __device__ void run(const T* a, const T* b, Item* c, int64_t m, int64_t n, int64_t k,
                               bool outgrows, const Epilogue& epilogue) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
        __trap();  // never launched there; such code is in builds for older GPUs, too
#else
        extern __shared__ __align__(128) char shared[];
        const Place place = place_of(blockIdx.x, Tiles(m, n, TILE));
        const int64_t top = int64_t{place.row} * TILE, left = int64_t{place.column} * TILE;
        Source<T> from_a = source_a(a, m, k, top), from_b = source_b(b, k, n, left);
        Piece piece;
        Sums sums = {};
#pragma unroll 1
        for (int stage = 0; stage < TENSOR_STAGES - 1; ++stage) {
            begin_copies(shared + stage * STAGE, from_a, from_b, piece);
            end_copies(shared + stage * STAGE, piece);
        }
        int now = 0;
        for (int64_t p = 0; p < k; p += DEPTH) {
            const int next = now == 0 ? TENSOR_STAGES - 1 : now - 1;  // the stage of the pass before
            __pipeline_wait_prior(TENSOR_STAGES - 2);                 // this thread's copies are there
            __syncthreads();  // everyone's are, and nobody reads `next` any more
            begin_copies(shared + next * STAGE, from_a, from_b, piece);
            multiply(shared + now * STAGE, sums);
            end_copies(shared + next * STAGE, piece);
            now = now + 1 == TENSOR_STAGES ? 0 : now + 1;
        }
        __pipeline_wait_prior(0);  // zeros, for passes beyond k, may still be on their way
        __syncthreads();           // the sums take the place of the stages
        auto* const all = reinterpret_cast<Sum*>(shared);
        place_sums(all, sums);
        __syncthreads();
        static_assert(TENSOR_THREADS % (TILE / 4) == 0,
                      "a thread stores in the same four columns of each row");
        float of_columns[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            of_columns[i] = epilogue.of_column(left + threadIdx.x % (TILE / 4) * 4 + i);
#pragma unroll 4
        for (int i = threadIdx.x; i < TILE * TILE / 4; i += TENSOR_THREADS) {
            const int row = i / (TILE / 4), column = i % (TILE / 4) * 4;
            store4(c, m, n, top + row, left + column, all + row * SUM_ROW + column, epilogue, of_columns,
                   outgrows);
        }
#endif
    }
};

template <class T, class Epilogue>
using TensorKernel = void (*)(const T*, const T*, typename Product<T>::Item*, int64_t, int64_t, int64_t, bool,
                              Epilogue);

// Launches one of four kernels: [tile of 128 or 64][by 16 bytes or item by item]. Or one of those for Hopper.
template <class T, class Epilogue>
int multiply_on_tensor_cores(const TensorKernel<T, Epilogue> (&kernels)[2][2], const T* a, const T* b,
                             typename Product<T>::Item* c, int64_t m, int64_t n, int64_t k,
                             const Epilogue& epilogue, int device, void* stream) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if (m == 0 || n == 0) return KV_OK;
    if ((k > 0 && (!a || !b)) || !c) return KV_ERROR_POINTER;
    bool large = false;
    int capability = 0;
    cudaError_t error = cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess) error = prefer_large(Tiles(m, n, 128), device, &large);
    if (error != cudaSuccess) return failed(error);
    if (capability < 8) return cuda_status(cudaErrorNotSupported);
#ifdef KV_SM_90A
    if (capability == 9 && is_for_hopper(a, b, c, m, n, k))
        return multiply_on_hopper(a, b, c, m, n, k, epilogue, device, stream);
#endif
    constexpr int64_t PER = CHUNK / sizeof(T);
    const bool aligned = is_aligned(a, CHUNK) && is_aligned(b, CHUNK) && is_aligned(c, CHUNK);
    auto* const kernel = kernels[!large][!(aligned && k % PER == 0 && n % PER == 0)];
    const int bytes = large ? TensorBlock<T, 128, true>::SHARED : TensorBlock<T, 64, true>::SHARED;
    const bool outgrows = outgrows_cache(m * n * static_cast<int64_t>(sizeof *c), device);
    const unsigned blocks = blocks_for(Tiles(m, n, large ? 128 : 64));
    return on_device(device, [=] {
        // More than 48 KB of shared memory must be asked for. What is refused, on_device finds.
        if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess)
            kernel<<<blocks, TENSOR_THREADS, bytes, static_cast<cudaStream_t>(stream)>>>(a, b, c, m, n, k,
                                                                                         outgrows, epilogue);
    });
}

}  // namespace kv

#define KV_TENSOR_KERNEL(NAME, T, TILE, VECTOR, EPILOGUE)                                      \
    extern "C" __global__ void __launch_bounds__(kv::TENSOR_THREADS)                           \
        NAME(const T* a, const T* b, kv::Product<T>::Item* c, int64_t m, int64_t n, int64_t k, \
             bool outgrows, EPILOGUE epilogue) {                                               \
        kv::TensorBlock<T, TILE, VECTOR, EPILOGUE>::run(a, b, c, m, n, k, outgrows, epilogue); \
    }

// Four kernels of one dtype, and a table of them, NAME.
#define KV_TENSOR_KERNELS(NAME, T, EPILOGUE)                     \
    KV_TENSOR_KERNEL(NAME##_128_vector, T, 128, true, EPILOGUE)  \
    KV_TENSOR_KERNEL(NAME##_128_scalar, T, 128, false, EPILOGUE) \
    KV_TENSOR_KERNEL(NAME##_64_vector, T, 64, true, EPILOGUE)    \
    KV_TENSOR_KERNEL(NAME##_64_scalar, T, 64, false, EPILOGUE)   \
    static const kv::TensorKernel<T, EPILOGUE> NAME[2][2] = {    \
        {NAME##_128_vector, NAME##_128_scalar},                  \
        {NAME##_64_vector, NAME##_64_scalar},                    \
    };

#endif  // KV_MATMUL_TENSOR_BLOCK_H
