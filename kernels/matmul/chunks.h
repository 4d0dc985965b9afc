// Chunks of 16 bytes: how matrices of small items come to the tensor cores (matmul_tensor.cu).
#ifndef KV_MATMUL_CHUNKS_H
#define KV_MATMUL_CHUNKS_H

#include <cuda_runtime.h>
#include <stdint.h>

#include <type_traits>

namespace kv {

constexpr int CHUNK = 16;  // bytes that one asynchronous copy takes, and a row of a matrix of warp_mma.h

// ROWS rows of COUNT chunks in shared memory, and one of padding behind each, or behind each two of half the 128
// bytes that all banks have at a time. So eight chunks below each other, which are read at once, lie in different
// banks, and so do eight that follow each other, which are written at once.
template <int ROWS, int COUNT>
struct Layout {
    static_assert(COUNT % 8 == 0 || COUNT == 4, "else they would not");
    static constexpr int PADDED = COUNT == 4 ? 2 : 1;  // rows
    static __device__ int at(int row, int chunk) { return (row * COUNT + row / PADDED + chunk) * CHUNK; }
    // How far it is to the row so many, a multiple of PADDED, below: a constant that needs no arithmetic.
    static __device__ constexpr int down(int rows) { return (rows * COUNT + rows / PADDED) * CHUNK; }
    static constexpr int SIZE = (ROWS * COUNT + ROWS / PADDED) * CHUNK;  // bytes
};

// SIZE neighbouring bytes of one row, as words; zeros from the item `inside` on. VECTOR promises alignment to
// SIZE, and that all are inside or none.
template <int SIZE, bool VECTOR, class T>
__device__ void fetch(uint32_t (&words)[SIZE / 4], const T* from, int64_t inside) {
    if constexpr (VECTOR) {
        using Vector = std::conditional_t<SIZE == 16, uint4, uint2>;
        *reinterpret_cast<Vector*>(words) = inside > 0 ? *reinterpret_cast<const Vector*>(from) : Vector{};
    } else {
        using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>;
        constexpr int PER = 4 / sizeof(T);  // items of a word
#pragma unroll
        for (int i = 0; i < SIZE / 4; ++i) {
            words[i] = 0;
#pragma unroll
            for (int j = 0; j < PER; ++j)
                if (i * PER + j < inside)
                    words[i] |= uint32_t{reinterpret_cast<const Bits*>(from)[i * PER + j]} << j * (32 / PER);
        }
    }
}

// What a thread takes of a matrix of bytes that must be transposed, DEPTH rows of TILE columns: WIDTH columns, from
// `column` on, of four rows, number `quad` of such fours. A warp takes 32 columns (memory moves no less at once).
template <int TILE, int DEPTH>
struct ColumnsOfRows {
    static constexpr int WIDTH = TILE / 8, WARPS_DOWN = DEPTH / 4 / WIDTH;
    alignas(16) uint32_t words[4][WIDTH / 4];

    static __device__ int quad() { return threadIdx.x / 32 % WARPS_DOWN * WIDTH + threadIdx.x % WIDTH; }
    static __device__ int column() {
        return threadIdx.x / 32 / WARPS_DOWN * 32 + threadIdx.x % 32 / WIDTH * WIDTH;
    }
};

// Four rows of four bytes become four columns.
__device__ inline void transpose(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
    const uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);  // bytes 0 and 1 of each
    const uint32_t ab_high = __byte_perm(a, b, 0x7362), cd_high = __byte_perm(c, d, 0x7362);
    a = __byte_perm(ab, cd, 0x5410);
    b = __byte_perm(ab, cd, 0x7632);
    c = __byte_perm(ab_high, cd_high, 0x5410);
    d = __byte_perm(ab_high, cd_high, 0x7632);
}

}  // namespace kv

#endif  // KV_MATMUL_CHUNKS_H
