// C = A B, row-major float32: A is m x k, B is k x n, C is m x n. CUDA.
//
// Cost: 2 m n k FLOP; each matrix crosses memory at least once: 4 (m k + k n + m n) bytes.
// Versions:
//   1  16 x 16 tiles of A and B in shared memory, one element of C per thread: two shared reads per
//      multiply-add
//   2  register tiles: each thread keeps 8 x 8 elements of C, so 16 shared reads feed 64 multiply-adds; tiles
//      of 128 x 128, the next pair loaded while this one is multiplied. 64 x 64 tiles (4 x 4 per thread)
//      where the larger ones would leave most of the GPU idle.
//   3  warp tiles: a warp computes 64 x 32 elements of C, not 16 x 128, so that per step of k it reads 96
//      different elements of shared memory instead of 144
//   4  blocks in bands of 8 rows of tiles (tiles.h), and a grid along one axis: any number of columns
//   5  asynchronous copies to shared memory, two passes ahead: what is on its way needs no registers, and odd
//      shapes take the same road, 4 bytes at a time where those of 16 are not possible
//   6  at most 128 registers (64 with the smaller tile), so that two blocks (four) share a multiprocessor
//   7  copies that are zeros beyond the matrix, instead of branches around them (copy_async.h)
// Sums are in float32, along k in order.
#include "copy_async.h"
#include "tiles.h"

namespace kv {

constexpr int THREADS = 256;
constexpr int STAGES = 3;  // passes in shared memory: one that is multiplied, two on their way

template <bool VECTOR>
__device__ void store4(float* matrix, int64_t rows, int64_t columns, int64_t row, int64_t column,
                       const float* values) {
    if (row >= rows || column >= columns) return;
    float* to = matrix + row * columns + column;
    if constexpr (VECTOR) {
        *reinterpret_cast<float4*>(to) = make_float4(values[0], values[1], values[2], values[3]);
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
template <int TILE, int DEPTH, int PER, bool VECTOR>
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

    // Neighbouring threads copy neighbouring elements of k, and the padding puts them into different banks.
    static __device__ void copy_a(Shared& shared, int stage, const Source<float>& source) {
        constexpr int STEP = THREADS / DEPTH;
        const int q = threadIdx.x % DEPTH, row = threadIdx.x / DEPTH;
#pragma unroll
        for (int i = 0; i < TILE; i += STEP)
            copy_or_zero<4>(&shared.a[stage][q][row + i], source.from + i * source.stride,
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

    static __device__ void store_sums(float* c, int64_t m, int64_t n, Place place,
                                      const float (&sums)[PER][PER]) {
        const int64_t top = int64_t{place.row} * TILE + first_row();
        const int64_t left = int64_t{place.column} * TILE + first_column();
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            const int64_t row = top + i / 4 * ROWS_APART + i % 4;
#pragma unroll
            for (int group = 0; group < PER / 4; ++group)
                store4<VECTOR>(c, m, n, row, left + group * COLUMNS_APART, &sums[i][group * 4]);
        }
    }

    static __device__ void run(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
        __shared__ __align__(16) Shared shared;
        const Place place = place_of(blockIdx.x, Tiles(m, n, TILE));
        constexpr int WIDTH = VECTOR ? 4 : 1;  // of copy_b
        Source<float> from_a(a, m, k, int64_t{place.row} * TILE + threadIdx.x / DEPTH, threadIdx.x % DEPTH);
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
        store_sums(c, m, n, place, sums);
    }
};

}  // namespace kv

// The second bound is the number of blocks that a multiprocessor must be able to hold in its 65536 registers:
// while one waits at its barrier, another computes.
extern "C" __global__ void __launch_bounds__(kv::THREADS, 2)
    kv_matmul_128_vector(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    kv::Block<128, 8, 8, true>::run(a, b, c, m, n, k);
}

extern "C" __global__ void __launch_bounds__(kv::THREADS, 2)
    kv_matmul_128_scalar(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    kv::Block<128, 8, 8, false>::run(a, b, c, m, n, k);
}

extern "C" __global__ void __launch_bounds__(kv::THREADS, 4)
    kv_matmul_64_vector(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    kv::Block<64, 16, 4, true>::run(a, b, c, m, n, k);
}

extern "C" __global__ void __launch_bounds__(kv::THREADS, 4)
    kv_matmul_64_scalar(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
    kv::Block<64, 16, 4, false>::run(a, b, c, m, n, k);
}

extern "C" KV_API int kv_matmul_cuda(const float* a, const float* b, float* c, int64_t m, int64_t n,
                                     int64_t k, int device, void* stream) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if (m == 0 || n == 0) return KV_OK;
    if ((k > 0 && (!a || !b)) || !c) return KV_ERROR_POINTER;
    bool large = false;
    const cudaError_t error = kv::fill_device(kv::Tiles(m, n, 128), device, &large);
    if (error != cudaSuccess) return kv::failed(error);
    const bool vector = n % 4 == 0 && kv::is_aligned(b, 16) && kv::is_aligned(c, 16);
    auto* const kernel = large ? (vector ? kv_matmul_128_vector : kv_matmul_128_scalar)
                               : (vector ? kv_matmul_64_vector : kv_matmul_64_scalar);
    const unsigned blocks = kv::blocks_for(kv::Tiles(m, n, large ? 128 : 64));
    return kv::on_device(device, [=] {
        kernel<<<blocks, kv::THREADS, 0, static_cast<cudaStream_t>(stream)>>>(a, b, c, m, n, k);
    });
}
