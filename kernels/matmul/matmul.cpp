// C = A B, row-major float32: A is m x k, B is k x n, C is m x n. CPU.
//
// Cost: 2 m n k FLOP; each matrix crosses memory at least once: 4 (m k + k n + m n) bytes.
// Versions:
//   1  the definition: three loops, one dot product per element of C; B is read down its columns
//   2  loops reordered to rows of B added to rows of C: the inner loop runs along memory and vectorises
//   3  packed and blocked (float32_blocks_cpu.h): a tile of C stays in registers while DEPTH products are added
//      to each of its elements; A and B are copied into the order in which the tiles read them (Goto, van de
//      Geijn: Anatomy of High-Performance Matrix Multiplication, 2008, for which block lives in which cache)
//   4  A packed by transposing 4 x 4 elements in registers, B by whole vectors: .94 of the time at 512^3 with AVX2, .92
//      at 128^3
//   5  the first DEPTH products put into C, not added to zeros, and C asked for before them: .98 of the time at 128^3 and
//      512^3, .87 at 1024 x 1024 x 64
//   6  A read where it lies, not packed, where at most 256 columns read it; not with AVX-512: .97 of the time at 128^3 to
//      256^3, .84 at 2048 x 64 x 512
//   7  four products of a sum in one turn of the loop, without AVX-512: .97 of the time at 128^3
//   8  the last rows in tiles of 4 where 6 would not fill: .97 of the time at 128^3, .98 at 256^3
// Note: tried and rejected: the next panel of B asked for while one is multiplied (1.01 to 1.02 of the time with AVX2), A
// asked for ahead (the same time), eight products a turn, blocks of A of 192 rows (1 to 1.01).
//
// Each element is summed along k in order, in float32, in blocks of DEPTH: the same for any number of
// threads.
#include "../_native/kv_isa.h"
#include "float32_blocks_cpu.h"

KV_CPU_KERNEL(kv_matmul_cpu,
              (const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k, int threads),
              (a, b, c, m, n, k, threads)) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if ((m * k > 0 && !a) || (k * n > 0 && !b) || (m * n > 0 && !c)) return KV_ERROR_POINTER;
    return kv::multiply(a, b, c, m, n, k, threads, kv::Plain{});
}
