// Which tile of C a block computes, and how many tiles there are: what matmul's CUDA kernels have in common.
#ifndef KV_MATMUL_TILES_H
#define KV_MATMUL_TILES_H

#include <limits.h>

#include "../_native/kv_cuda.h"
#include "../_native/kv_cuda_half.h"

namespace kv {

// Tiles of C, by rows and columns of tiles.
struct Tiles {
    int64_t rows, columns;

    __host__ __device__ Tiles(int64_t m, int64_t n, int tile) : Tiles(m, n, tile, tile) {}
    __host__ __device__ Tiles(int64_t m, int64_t n, int height, int width)
        : rows((m + height - 1) / height), columns((n + width - 1) / width) {}
};

struct Place {
    unsigned row, column;
};

// The tile of a block of a grid along one axis. Blocks run about in the order of their numbers. In bands of
// BAND rows of tiles, 64 that run together read 8 rows and 8 columns of tiles; row by row they would read one
// row and 64 columns, of which the second-level cache holds less.
inline __device__ Place place_of(unsigned block, Tiles tiles) {
    constexpr unsigned BAND = 8;
    const auto rows = static_cast<unsigned>(tiles.rows), columns = static_cast<unsigned>(tiles.columns);
    const unsigned height = min(BAND, rows), first = block / (height * columns) * height;
    const unsigned here = min(height, rows - first), within = block % (height * columns);
    return {first + within % here, within / here};
}

// What C holds, and in what is summed.
template <class T>
struct Product {
    using Sum = float;
    using Item = T;
};
template <>
struct Product<int8_t> {
    using Sum = int;
    using Item = int;
};
template <>
struct Product<Float8> {
    using Sum = float;
    using Item = float;
};

inline __device__ void round_to(int& item, int sum) { item = sum; }

// What is done to the sums of a plain product: nothing. Another epilogue has what it needs of a column (which
// may lie beyond the last), and the element that a sum in that column becomes.
struct Plain {
    __device__ float of_column(int64_t) const { return 0.0f; }
    template <class Sum>
    __device__ Sum operator()(Sum sum, float) const {
        return sum;
    }
};

// Where a thread reads in a row-major matrix, and how many rows and columns are left of it from there on.
template <class T>
struct Source {
    const T* from;
    int64_t stride, rows, columns;

    __device__ Source(const T* matrix, int64_t matrix_rows, int64_t matrix_columns, int64_t row,
                      int64_t column)
        : from(matrix + row * matrix_columns + column),
          stride(matrix_columns),
          rows(matrix_rows - row),
          columns(matrix_columns - column) {}

    // How many neighbours in the row `row` below are inside the matrix: none if 0 or less.
    __device__ int64_t inside(int row) const { return row < rows ? columns : 0; }

    __device__ void go_down(int by) {
        from += by * stride;
        rows -= by;
    }
    __device__ void go_right(int by) {
        from += by;
        columns -= by;
    }
};

// Blocks for all tiles; 0, which CUDA refuses to launch, where they are more than a grid can have.
inline unsigned blocks_for(Tiles tiles) {
    return tiles.rows <= INT_MAX / tiles.columns ? static_cast<unsigned>(tiles.rows * tiles.columns) : 0;
}

// Whether so many tiles of 128 take a device less time than four of 64 for each. One of these takes a quarter of the
// time and, as an estimate, a quarter of that more, for it loads twice as much for a product. Multiprocessors have
// tiles in rounds, of which the last is as long as any: 144 tiles take 132 multiprocessors two, four times 144 five.
inline cudaError_t prefer_large(Tiles tiles, int device, bool* large) {
    int processors = 1;
    const cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    const auto rounds = [&](int64_t count) { return (count + processors - 1) / processors; };
    const int64_t count = tiles.rows * tiles.columns;
    *large = 16 * rounds(count) <= 5 * rounds(4 * count);
    return error;
}

}  // namespace kv

#endif  // KV_MATMUL_TILES_H
