// What a warp does with tensor cores, as instructions of PTX: compute capability 8.0 or higher.
//
// Lane l has 4 bytes of a matrix of 8 rows of 16 bytes: those from l % 4 * 4 on of row l / 4. A's 16 x 32 bytes
// are four such matrices: rows 0 to 7, rows 8 to 15, and the same again 16 bytes to the right; B's 32 bytes x
// 8 columns are two, a row of them for each column. Of the 16 x 8 sums, lane l has two neighbours of row l / 4,
// from column l % 4 * 2 on, and those of the row 8 below. (PTX ISA, fragments of mma.m16n8k16 and
// mma.m16n8k32.)
// Note: nvcuda::wmma was tried. nvcc 13.0 loads its fragments of bfloat16 by generic loads of 4 bytes and moves
// them between lanes (64 and 32 instructions per pass, where those of float16 take 16 ldmatrix), and its
// products of int8 are of 16 steps of k, not of 32.
#ifndef KV_MATMUL_WARP_MMA_H
#define KV_MATMUL_WARP_MMA_H

#include <stdint.h>

#include "../_native/kv_cuda_float16.h"

namespace kv {

// Loads four matrices from shared memory: `row` of lane l is where row l % 8 of matrix l / 8 begins, at a
// multiple of 16 bytes.
__device__ inline void load_matrices(uint32_t (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
}

// The same, each matrix, of 8 x 8 items of two bytes, transposed.
__device__ inline void load_transposed(uint32_t (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
}

#define KV_MMA(INSTRUCTION, CONSTRAINT)                                                      \
    asm(INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"       \
        : CONSTRAINT(sums[0]), CONSTRAINT(sums[1]), CONSTRAINT(sums[2]), CONSTRAINT(sums[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high))

// Adds the product of A, 16 rows of 32 bytes, and B, 32 bytes of 8 columns, to 16 x 8 sums. `b_low` are the
// first 16 bytes of B, `b_high` the others.
template <class T, class Sum>
__device__ void multiply_add(Sum (&sums)[4], const uint32_t (&a)[4], uint32_t b_low, uint32_t b_high);

template <>
__device__ inline void multiply_add<Float16>(float (&sums)[4], const uint32_t (&a)[4], uint32_t b_low,
                                             uint32_t b_high) {
    KV_MMA("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "+f");
}

template <>
__device__ inline void multiply_add<Bfloat16>(float (&sums)[4], const uint32_t (&a)[4], uint32_t b_low,
                                              uint32_t b_high) {
    KV_MMA("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
}

template <>
__device__ inline void multiply_add<int8_t>(int (&sums)[4], const uint32_t (&a)[4], uint32_t b_low,
                                            uint32_t b_high) {
    KV_MMA("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "+r");
}

#undef KV_MMA

}  // namespace kv

#endif  // KV_MATMUL_WARP_MMA_H
