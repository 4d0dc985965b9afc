// The blocks of a float32 product on CUDA cores, and what is done to each sum before it is stored: for
// matmul.cu, which says what was tried, and for kernels that are a product with something behind it.
#ifndef KV_MATMUL_FLOAT32_BLOCK_H
#define KV_MATMUL_FLOAT32_BLOCK_H

#include "copy_async.h"
#include "tiles.h"

namespace kv {

constexpr int THREADS = 256;
constexpr int STAGES = 3;  // passes in shared memory: one that is multiplied, two on their way

template <bool VECTOR>
__device__ void store4(float* matrix, int64_t rows, int64_t columns, int64_t row, int64_t column,
                       const float* values, bool outgrows) {
    if (row >= rows || column >= columns) return;
    float* to = matrix + row * columns + column;
    if constexpr (VECTOR) {
        store(reinterpret_cast<float4*>(to), make_float4(values[0], values[1], values[2], values[3]),
              outgrows);
    } else {
        for (int i = 0; i < 4; ++i)
            if (column + i < columns) to[i] = values[i];
    }
}

// PER elements of a row of a warp's tile, in groups of four that lie APART elements apart: neighbouring
// threads then read neighbouring 16 bytes of shared memory.
template <int APART, int PER>
__device__ void read_fragment(float (&fragment)[PER], const float* from) {
#pragma unroll
    for (int group = 0; group < PER / 4; ++group) {
        const float4 four = *reinterpret_cast<const float4*>(from + group * APART);
        fragment[group * 4 + 0] = four.x;
        fragment[group * 4 + 1] = four.y;
        fragment[group * 4 + 2] = four.z;
        fragment[group * 4 + 3] = four.w;
    }
}

// One TILE x TILE block of C by THREADS threads with PER x PER elements each; DEPTH steps of k per pass.
//
// The warps are 2 x 4, the threads of a warp 8 x 4. A request of 16 bytes per thread is served eight threads
// at a time: of eight that follow each other, two each read one of four neighbouring pieces of A, and four
// each one of two pieces of B (the order of threads that Gray's assembler maxas documents for SGEMM).
template <int TILE, int DEPTH, int PER, bool VECTOR, class Epilogue = Plain>
struct Block {
    static constexpr int THREAD_ROWS = 8, THREAD_COLUMNS = 4;
    static constexpr int WARP_ROWS = THREAD_ROWS * PER, WARP_COLUMNS = THREAD_COLUMNS * PER;  // elements of C
    static constexpr int ROWS_APART = THREAD_ROWS * 4, COLUMNS_APART = THREAD_COLUMNS * 4;
    static_assert(TILE * DEPTH == 4 * THREADS, "each thread copies four elements of A and of B per pass");
    static_assert((TILE / PER) * (TILE / PER) == THREADS, "the threads cover the block");
    static_assert(TILE == 2 * WARP_ROWS && TILE == 4 * WARP_COLUMNS, "the warps cover the block");

    struct Shared {
        float a[STAGES][DEPTH]
               [TILE + 4];  // transposed; padded, for 8 elements of a column are written at once
        float b[STAGES][DEPTH][TILE];
    };

    // A warp copies eight neighbours of k (32 bytes, of which memory moves no less) of four rows, and the padding puts
    // all of them into different banks.
    static constexpr int EIGHTS = DEPTH / 8;
    static __device__ int a_column() { return threadIdx.x / 32 % EIGHTS * 8 + threadIdx.x % 8; }
    static __device__ int a_row() { return threadIdx.x / 32 / EIGHTS * 4 + threadIdx.x / 8 % 4; }

    static __device__ void copy_a(Shared& shared, int stage, const Source<float>& source) {
        constexpr int STEP = THREADS / DEPTH;
#pragma unroll
        for (int i = 0; i < TILE; i += STEP)
            copy_or_zero<4>(&shared.a[stage][a_column()][a_row() + i], source.from + i * source.stride,
                            source.inside(i) > 0);
    }

    static __device__ void copy_b(Shared& shared, int stage, const Source<float>& source) {
        constexpr int WIDTH = VECTOR ? 4 : 1, STEP = THREADS * WIDTH / TILE;
        const int column = threadIdx.x % (TILE / WIDTH) * WIDTH, q = threadIdx.x / (TILE / WIDTH);
#pragma unroll
        for (int i = 0; i < DEPTH; i += STEP)
            copy_or_zero<4 * WIDTH>(&shared.b[stage][q + i][column], source.from + i * source.stride,
                                    source.inside(i) > 0);
    }

    // The first row and column, within the block, of the elements of C that this thread keeps.
    static __device__ int first_row() { return threadIdx.x / 32 / 4 * WARP_ROWS + (threadIdx.x / 2 & 7) * 4; }
    static __device__ int first_column() {
        return threadIdx.x / 32 % 4 * WARP_COLUMNS + (threadIdx.x & 1 | threadIdx.x / 8 & 2) * 4;
    }

    static __device__ void multiply(const Shared& shared, int stage, float (&sums)[PER][PER]) {
        const int row = first_row(), column = first_column();
#pragma unroll
        for (int q = 0; q < DEPTH; ++q) {
            float a[PER], b[PER];
            read_fragment<ROWS_APART>(a, &shared.a[stage][q][row]);
            read_fragment<COLUMNS_APART>(b, &shared.b[stage][q][column]);
#pragma unroll
            for (int i = 0; i < PER; ++i)
#pragma unroll
                for (int j = 0; j < PER; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
        }
    }

    static __device__ void store_sums(float* c, int64_t m, int64_t n, bool outgrows, Place place,
                                      const Epilogue& epilogue, const float (&sums)[PER][PER]) {
        const int64_t top = int64_t{place.row} * TILE + first_row();
        const int64_t left = int64_t{place.column} * TILE + first_column();
        float of_columns[PER];
#pragma unroll
        for (int j = 0; j < PER; ++j)
            of_columns[j] = epilogue.of_column(left + j / 4 * COLUMNS_APART + j % 4);
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            const int64_t row = top + i / 4 * ROWS_APART + i % 4;
            float values[PER];
#pragma unroll
            for (int j = 0; j < PER; ++j) values[j] = epilogue(sums[i][j], of_columns[j]);
#pragma unroll
            for (int group = 0; group < PER / 4; ++group)
                store4<VECTOR>(c, m, n, row, left + group * COLUMNS_APART, &values[group * 4], outgrows);
        }
    }

    static __device__ void run(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k,
                               bool outgrows, const Epilogue& epilogue) {
        __shared__ __align__(16) Shared shared;
        __shared__ Place kept;  // for store_sums, not in registers: the loop needs all there are
        const Place place = place_of(blockIdx.x, Tiles(m, n, TILE));
        if (threadIdx.x == 0) kept = place;
        constexpr int WIDTH = VECTOR ? 4 : 1;  // of copy_b
        Source<float> from_a(a, m, k, int64_t{place.row} * TILE + a_row(), a_column());
        Source<float> from_b(b, k, n, threadIdx.x / (TILE / WIDTH),
                             int64_t{place.column} * TILE + threadIdx.x % (TILE / WIDTH) * WIDTH);
        const auto copy_pass = [&](int stage) {
            copy_a(shared, stage, from_a);
            copy_b(shared, stage, from_b);
            __pipeline_commit();
            from_a.go_right(DEPTH);
            from_b.go_down(DEPTH);
        };
        float sums[PER][PER] = {};
        int now = 0;
        for (int stage = 0; stage < STAGES - 1; ++stage) copy_pass(stage);
        for (int64_t left = k; left > 0; left -= DEPTH) {
            const int next = now == 0 ? STAGES - 1 : now - 1;  // the stage of the pass before
            __pipeline_wait_prior(STAGES - 2);                 // this thread's copies are there
            __syncthreads();  // everyone's are, and nobody reads `next` any more
            copy_pass(next);
            multiply(shared, now, sums);
            now = now + 1 == STAGES ? 0 : now + 1;
        }
        __syncthreads();  // `kept` is there also where k is 0
        store_sums(c, m, n, outgrows, kept, epilogue, sums);
    }
};

template <class Epilogue>
using Float32Kernel = void (*)(const float*, const float*, float*, int64_t, int64_t, int64_t, bool, Epilogue);

// Launches one of four kernels: [tile of 128 or 64][by 16 bytes or number by number].
template <class Epilogue>
int multiply_float32(const Float32Kernel<Epilogue> (&kernels)[2][2], const float* a, const float* b, float* c,
                     int64_t m, int64_t n, int64_t k, const Epilogue& epilogue, int device, void* stream) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if (m == 0 || n == 0) return KV_OK;
    if ((k > 0 && (!a || !b)) || !c) return KV_ERROR_POINTER;
    bool large = false;
    const cudaError_t error = prefer_large(Tiles(m, n, 128), device, &large);
    if (error != cudaSuccess) return failed(error);
    auto* const kernel = kernels[!large][!(n % 4 == 0 && is_aligned(b, 16) && is_aligned(c, 16))];
    const bool outgrows = outgrows_cache(m * n * static_cast<int64_t>(sizeof(float)), device);
    const unsigned blocks = blocks_for(Tiles(m, n, large ? 128 : 64));
    return on_device(device, [=] {
        kernel<<<blocks, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(a, b, c, m, n, k, outgrows,
                                                                          epilogue);
    });
}

}  // namespace kv

// The second bound is the number of blocks that a multiprocessor must be able to hold in its 65536 registers:
// while one waits at its barrier, another computes.
#define KV_FLOAT32_KERNEL(NAME, TILE, DEPTH, PER, VECTOR, BLOCKS, EPILOGUE)                            \
    extern "C" __global__ void __launch_bounds__(kv::THREADS, BLOCKS)                                  \
        NAME(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, bool outgrows, \
             EPILOGUE epilogue) {                                                                      \
        kv::Block<TILE, DEPTH, PER, VECTOR, EPILOGUE>::run(a, b, c, m, n, k, outgrows, epilogue);      \
    }

// Four kernels of one epilogue, and a table of them, NAME.
#define KV_FLOAT32_KERNELS(NAME, EPILOGUE)                              \
    KV_FLOAT32_KERNEL(NAME##_128_vector, 128, 8, 8, true, 2, EPILOGUE)  \
    KV_FLOAT32_KERNEL(NAME##_128_scalar, 128, 8, 8, false, 2, EPILOGUE) \
    KV_FLOAT32_KERNEL(NAME##_64_vector, 64, 16, 4, true, 4, EPILOGUE)   \
    KV_FLOAT32_KERNEL(NAME##_64_scalar, 64, 16, 4, false, 4, EPILOGUE)  \
    static const kv::Float32Kernel<EPILOGUE> NAME[2][2] = {             \
        {NAME##_128_vector, NAME##_128_scalar},                         \
        {NAME##_64_vector, NAME##_64_scalar},                           \
    };

#endif  // KV_MATMUL_FLOAT32_BLOCK_H
