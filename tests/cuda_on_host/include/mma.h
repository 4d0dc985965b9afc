// Stands in for the CUDA toolkit's header of this name: 16 x 16 x 16 products of a warp on tensor cores.
//
// A lane's part of an accumulator is 8 neighbours of a row: row lane / 2, columns from lane % 2 * 8. Of the factors
// it keeps what these elements need: a row of A, and 8 columns of B. Kernels must not know this: CUDA does not say
// which lane has what, so they may only do the same to every element of x. (Each lane of a GPU has 16 elements of a
// factor of float16, not 16 and 128.) Sums are in float32, along k in order; a tensor core's order and rounding are
// its own.
#ifndef CUDA_ON_HOST_MMA_H
#define CUDA_ON_HOST_MMA_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

constexpr int TILE = 16, COLUMNS = 8;  // COLUMNS: of a lane

template <class Use>
constexpr int ELEMENTS = COLUMNS;
template <>
constexpr int ELEMENTS<matrix_a> = TILE;
template <>
constexpr int ELEMENTS<matrix_b> = TILE * COLUMNS;

template <class Use, int M, int N, int K, class Item, class Layout = void>
struct fragment {
    static_assert(M == TILE && N == TILE && K == TILE, "the engine has 16 x 16 x 16");
    static constexpr int num_elements = ELEMENTS<Use>;
    using element_type = Item;
    Item x[num_elements];
};

inline int own_row() { return static_cast<int>(cuda_on_host::lane()) / 2; }
inline int own_column() { return static_cast<int>(cuda_on_host::lane()) % 2 * COLUMNS; }

// All lanes are here, and the address and the distance of rows are what CUDA's programming guide asks for: 32 and 16
// bytes. Of int8, for which 32 bytes would forbid every other tile of a row, a row of the tile: 16.
template <class Item>
void meet(const Item* matrix, unsigned stride) {
    constexpr size_t alignment = sizeof(Item) == 1 ? 16 : 32;
    if (reinterpret_cast<uintptr_t>(matrix) % alignment != 0)
        cuda_on_host::fault("a tile that is not aligned to %zu bytes", alignment);
    if (stride * sizeof(Item) % 16 != 0)
        cuda_on_host::fault("a tile whose rows are not multiples of 16 bytes apart");
    cuda_on_host::exchange(~0u, 0, false);
}

template <class Layout>
size_t place(int row, int column, unsigned stride);
template <>
inline size_t place<row_major>(int row, int column, unsigned stride) {
    return size_t{stride} * static_cast<size_t>(row) + static_cast<size_t>(column);
}
template <>
inline size_t place<col_major>(int row, int column, unsigned stride) {
    return place<row_major>(column, row, stride);
}
inline size_t place(int row, int column, unsigned stride, layout_t layout) {
    return layout == mem_row_major ? place<row_major>(row, column, stride)
                                   : place<col_major>(row, column, stride);
}

template <class Item, class Layout>
void load_matrix_sync(fragment<matrix_a, TILE, TILE, TILE, Item, Layout>& a, const Item* from,
                      unsigned stride) {
    meet(from, stride);
    for (int k = 0; k < TILE; ++k) a.x[k] = from[place<Layout>(own_row(), k, stride)];
}

template <class Item, class Layout>
void load_matrix_sync(fragment<matrix_b, TILE, TILE, TILE, Item, Layout>& b, const Item* from,
                      unsigned stride) {
    meet(from, stride);
    for (int k = 0; k < TILE; ++k)
        for (int i = 0; i < COLUMNS; ++i)
            b.x[k * COLUMNS + i] = from[place<Layout>(k, own_column() + i, stride)];
}

template <class Item>
void load_matrix_sync(fragment<accumulator, TILE, TILE, TILE, Item>& c, const Item* from, unsigned stride,
                      layout_t layout) {
    meet(from, stride);
    for (int i = 0; i < COLUMNS; ++i) c.x[i] = from[place(own_row(), own_column() + i, stride, layout)];
}

template <class Item>
void store_matrix_sync(Item* to, const fragment<accumulator, TILE, TILE, TILE, Item>& c, unsigned stride,
                       layout_t layout) {
    meet(to, stride);
    for (int i = 0; i < COLUMNS; ++i) to[place(own_row(), own_column() + i, stride, layout)] = c.x[i];
}

template <class Use, class Item, class Layout, class Value>
void fill_fragment(fragment<Use, TILE, TILE, TILE, Item, Layout>& all, Value value) {
    for (Item& x : all.x) x = value;
}

inline float number(__half x) { return __half2float(x); }
inline float number(__nv_bfloat16 x) { return __bfloat162float(x); }
inline int number(signed char x) { return x; }

// d = a b + c
template <class Sum, class Item, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, TILE, TILE, TILE, Sum>& d,
              const fragment<matrix_a, TILE, TILE, TILE, Item, LayoutA>& a,
              const fragment<matrix_b, TILE, TILE, TILE, Item, LayoutB>& b,
              const fragment<accumulator, TILE, TILE, TILE, Sum>& c) {
    cuda_on_host::exchange(~0u, 0, false);
    for (int i = 0; i < COLUMNS; ++i) {
        Sum sum = c.x[i];
        for (int k = 0; k < TILE; ++k) sum += number(a.x[k]) * number(b.x[k * COLUMNS + i]);
        d.x[i] = sum;
    }
}

}  // namespace wmma
}  // namespace nvcuda

#endif  // CUDA_ON_HOST_MMA_H
