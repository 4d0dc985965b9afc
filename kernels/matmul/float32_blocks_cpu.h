// A float32 product on the CPU, packed and blocked, and what is done to its sums while they are in a cache: for
// matmul.cpp, which says what was tried, and for kernels that are a product with something behind it.
#ifndef KV_MATMUL_FLOAT32_BLOCKS_CPU_H
#define KV_MATMUL_FLOAT32_BLOCKS_CPU_H

#include <algorithm>
#include <atomic>
#include <new>
#include <type_traits>

#include "../_native/kv.h"
#include "../_native/kv_simd.h"
#include "../_native/kv_threads.h"

namespace kv {
namespace {

// The tile of C in registers: ROWS x VECTORS sums, VECTORS of B, one element of A.
#if defined(__AVX512F__)
constexpr int ROWS = 12, VECTORS = 2;  // 24 + 2 + 1 of 32 registers
#elif defined(__aarch64__)
constexpr int ROWS = 8, VECTORS = 2;  // 16 + 2 + 8 of 32: GCC loads all elements of A; 12 would spill
#else
constexpr int ROWS = 6, VECTORS = 2;  // 12 + 2 + 1 of 16
#endif
constexpr int COLUMNS = VECTORS * WIDTH;
// Rows of a tile where fewer are left: 8 sums still fill the pipelines.
constexpr int SHORT_ROWS = ROWS == 6 ? 4 : ROWS;

// How many rows the next tile has, `left` being left: 8 are two tiles of 4, not one of 6 and most of another.
constexpr int64_t tile_rows(int64_t left) {
    return left <= SHORT_ROWS || (left > ROWS && left <= 2 * SHORT_ROWS) ? SHORT_ROWS : ROWS;
}

// Products that are added to each sum in one turn of the loop.
constexpr int STEPS = ROWS == 6 ? 4 : 1;

constexpr int64_t DEPTH = 256;  // a panel of B, DEPTH x COLUMNS, stays in the first-level cache (32 KiB)
constexpr int64_t BLOCK_ROWS = 16 * ROWS;  // a block of A, BLOCK_ROWS x DEPTH, in the second level (192 KiB)
constexpr int64_t BLOCK_COLUMNS = 1024;    // a block of B, DEPTH x BLOCK_COLUMNS, in the third (1 MiB)

// Packing A costs more than it gains where so few columns read it. With twelve rows, which are AVX-512's, unmeasured.
constexpr int64_t FEW_COLUMNS = ROWS < 12 ? 256 : 0;

struct Matrix {
    const float* items;
    int64_t stride;  // elements from one row to the next
};

// Memory for one packed block, aligned to whole vectors; `items` is null when there is none.
// Note: std::unique_ptr was used. Of what compiling matmul.cpp then took, reading <memory> was a quarter (GCC 12).
struct Buffer {
    float* const items;

    explicit Buffer(int64_t count)
        : items(static_cast<float*>(::operator new(static_cast<std::size_t>(count) * sizeof(float),
                                                   std::align_val_t{64}, std::nothrow))) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { ::operator delete(items, std::align_val_t{64}); }
};

int64_t round_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

// Writes HEIGHT rows of `depth` elements, column by column.
template <int HEIGHT>
inline void pack_panel(Matrix a, int64_t depth, float* to) {
    int64_t p = 0;
#if defined(__SSE2__)
    for (; p + 4 <= depth; p += 4, to += 4 * HEIGHT) {
        const float* from = a.items + p;
        int i = 0;
#pragma GCC unroll 3
        for (; i + 4 <= HEIGHT; i += 4, from += 4 * a.stride) {
            __m128 row0 = _mm_loadu_ps(from), row1 = _mm_loadu_ps(from + a.stride);
            __m128 row2 = _mm_loadu_ps(from + 2 * a.stride), row3 = _mm_loadu_ps(from + 3 * a.stride);
            _MM_TRANSPOSE4_PS(row0, row1, row2, row3);
            _mm_storeu_ps(to + i, row0);
            _mm_storeu_ps(to + i + HEIGHT, row1);
            _mm_storeu_ps(to + i + 2 * HEIGHT, row2);
            _mm_storeu_ps(to + i + 3 * HEIGHT, row3);
        }
        static_assert(HEIGHT % 4 == 0 || HEIGHT % 4 == 2, "two rows are left, or none");
        if (HEIGHT % 4 == 2) {
            const __m128 row0 = _mm_loadu_ps(from), row1 = _mm_loadu_ps(from + a.stride);
            const __m128 low = _mm_unpacklo_ps(row0, row1), high = _mm_unpackhi_ps(row0, row1);
            _mm_storel_pi(reinterpret_cast<__m64*>(to + i), low);
            _mm_storeh_pi(reinterpret_cast<__m64*>(to + i + HEIGHT), low);
            _mm_storel_pi(reinterpret_cast<__m64*>(to + i + 2 * HEIGHT), high);
            _mm_storeh_pi(reinterpret_cast<__m64*>(to + i + 3 * HEIGHT), high);
        }
    }
#endif
    for (; p < depth; ++p, to += HEIGHT)
#pragma GCC unroll 12
        for (int i = 0; i < HEIGHT; ++i) to[i] = a.items[i * a.stride + p];
}

// Copies rows x depth of A into the panels of tiles, each column of a panel together; missing rows are zeros.
void pack_a(Matrix a, int64_t rows, int64_t depth, float* to) {
    for (int64_t height = 0; rows > 0; rows -= height, to += height * depth) {
        height = tile_rows(rows);
        if (rows < height) {
            std::fill(to, to + height * depth, 0.0f);
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t p = 0; p < depth; ++p) to[p * height + i] = a.items[i * a.stride + p];
        } else if (height == ROWS) {
            pack_panel<ROWS>(a, depth, to);
        } else {
            pack_panel<SHORT_ROWS>(a, depth, to);
        }
        a.items += height * a.stride;
    }
}

// Copies depth x columns of B into panels of COLUMNS columns, each row of a panel together; missing columns
// are zeros.
void pack_b(Matrix b, int64_t depth, int64_t columns, float* to) {
    int64_t left = 0;
    for (; left + COLUMNS <= columns; left += COLUMNS)
        for (int64_t p = 0; p < depth; ++p, to += COLUMNS) {
            const float* from = b.items + p * b.stride + left;
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; ++v) store(to + v * WIDTH, load<Floats>(from + v * WIDTH));
        }
    if (left == columns) return;
    for (int64_t p = 0; p < depth; ++p, to += COLUMNS) {
        const float* from = b.items + p * b.stride;
        std::fill(std::copy(from + left, from + columns, to), to + COLUMNS, 0.0f);
    }
}

// HEIGHT rows of A: packed, or where they lie.
template <int HEIGHT>
struct PackedRows {
    const float* items;

    PackedRows(Matrix a, int64_t top, int64_t /*height*/) : items(a.items + top * a.stride) {}
    float at(int i, int64_t p) const { return items[p * HEIGHT + i]; }
};

template <int HEIGHT>
struct RowsOfA {
    const float* rows[HEIGHT];

    RowsOfA(Matrix a, int64_t top, int64_t height) {  // rows that are missing are the last one
#pragma GCC unroll 12
        for (int i = 0; i < HEIGHT; ++i)
            rows[i] = a.items + (top + std::min<int64_t>(i, height - 1)) * a.stride;
    }
    float at(int i, int64_t p) const { return rows[i][p]; }
};

// sums += (rows of A) (panel of B)
template <int HEIGHT, class Rows>
inline void multiply_panels(const Rows& a, const float* b, int64_t depth, Floats (&sums)[HEIGHT][VECTORS]) {
#pragma GCC unroll STEPS
    for (int64_t p = 0; p < depth; ++p, b += COLUMNS) {
        Floats row[VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; ++v) row[v] = load<Floats>(b + v * WIDTH);
#pragma GCC unroll 12
        for (int i = 0; i < HEIGHT; ++i)
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; ++v) sums[i][v] += a.at(i, p) * row[v];
    }
}

// Adds one tile of the product to C or, where `is_first`, puts it there. An incomplete tile is computed whole.
template <int HEIGHT, class Rows>
void add_tile(const Rows& a, const float* b, int64_t depth, float* c, int64_t stride, int64_t height,
              int64_t width, bool is_first) {
    for (int64_t i = 0; i < height; ++i) __builtin_prefetch(c + i * stride, 1);
    Floats sums[HEIGHT][VECTORS] = {};
    multiply_panels(a, b, depth, sums);
    if (height == HEIGHT && width == COLUMNS) {
#pragma GCC unroll 12
        for (int i = 0; i < HEIGHT; ++i)
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; ++v) {
                float* const to = c + i * stride + v * WIDTH;
                store(to, (is_first ? Floats{} : load<Floats>(to)) + sums[i][v]);
            }
        return;
    }
    float edge[HEIGHT][COLUMNS];
    std::memcpy(edge, sums, sizeof edge);
    for (int64_t i = 0; i < height; ++i, c += stride)
        for (int64_t j = 0; j < width; ++j) c[j] = (is_first ? 0.0f : c[j]) + edge[i][j];
}

// Adds a block of A times a packed block of B to rows x columns of C, or puts it there. Packed rows are `depth` apart.
template <template <int> class Rows>
void add_block(Matrix a, const float* b, int64_t depth, float* c, int64_t stride, int64_t rows,
               int64_t columns, bool is_first) {
    for (int64_t j = 0; j < columns; j += COLUMNS, b += COLUMNS * depth) {
        const int64_t width = std::min<int64_t>(COLUMNS, columns - j);
        int64_t i = 0;
        const auto add = [&](auto height) {
            constexpr int HEIGHT = decltype(height)::value;
            const int64_t here = std::min<int64_t>(HEIGHT, rows - i);
            add_tile<HEIGHT>(Rows<HEIGHT>(a, i, here), b, depth, c + i * stride + j, stride, here, width,
                             is_first);
            i += HEIGHT;
        };
        while (i < rows)
            if (tile_rows(rows - i) == ROWS)
                add(std::integral_constant<int, ROWS>());
            else
                add(std::integral_constant<int, SHORT_ROWS>());
    }
}

// What is done to the sums of a plain product: nothing. Another epilogue changes `rows` rows of `columns` elements of
// C, `stride` apart, that begin at the column `first` of C; their sums are whole, and have just been written.
struct Plain {
    void operator()(float*, int64_t /*stride*/, int64_t /*rows*/, int64_t /*columns*/,
                    int64_t /*first*/) const {}
};

// Rows begin to end of C.
template <class Epilogue>
int multiply(Matrix a, Matrix b, float* c, int64_t begin, int64_t end, int64_t n, int64_t k,
             const Epilogue& epilogue) {
    const int64_t depth = std::min(DEPTH, k);
    const bool packs = FEW_COLUMNS == 0 || n > FEW_COLUMNS;
    const Buffer packed_a(packs ? round_up(std::min(BLOCK_ROWS, end - begin), ROWS) * depth : 0);
    const Buffer packed_b(round_up(std::min(BLOCK_COLUMNS, n), COLUMNS) * depth);
    if (!packed_a.items || !packed_b.items) return KV_ERROR_MEMORY;
    for (int64_t j = 0; j < n; j += BLOCK_COLUMNS) {
        const int64_t columns = std::min(BLOCK_COLUMNS, n - j);
        for (int64_t p = 0; p == 0 || p < k; p += DEPTH) {  // once without an inner axis: for the epilogue
            const int64_t steps = std::min(DEPTH, k - p);
            pack_b({b.items + p * b.stride + j, b.stride}, steps, columns, packed_b.items);
            for (int64_t i = begin; i < end; i += BLOCK_ROWS) {
                const int64_t rows = std::min(BLOCK_ROWS, end - i);
                const Matrix block{a.items + i * a.stride + p, a.stride};
                const auto add = [&](auto add_rows, Matrix from) {
                    add_rows(from, packed_b.items, steps, c + i * n + j, n, rows, columns, p == 0);
                };
                if (packs) {
                    pack_a(block, rows, steps, packed_a.items);
                    add(add_block<PackedRows>, Matrix{packed_a.items, steps});
                } else {
                    add(add_block<RowsOfA>, block);
                }
                if (p + DEPTH >= k) epilogue(c + i * n + j, n, rows, columns, j);
            }
        }
    }
    return KV_OK;
}

// C by `threads` threads, each some of its rows.
template <class Epilogue>
int multiply(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, int threads,
             const Epilogue& epilogue) {
    std::atomic<int> status{KV_OK};  // of the thread that failed last, if one did
    const int spawned = parallel_for(m, ROWS, threads, [=, &status, &epilogue](int64_t begin, int64_t end) {
        const int done = multiply(Matrix{a, k}, Matrix{b, n}, c, begin, end, n, k, epilogue);
        if (done != KV_OK) status = done;
    });
    return spawned != KV_OK ? spawned : status.load();
}

}  // namespace
}  // namespace kv

#endif  // KV_MATMUL_FLOAT32_BLOCKS_CPU_H
