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
//   8  a warp copies 8 x 4 elements of A in tiles of 64, too, not 16 x 2, of which each second waited for a bank
//   9  C by stores of 16 bytes wherever the pointers allow it: half of it, and all in tiles of 64, went by those of 4
//  10  tiles of 64 also where the last round of those of 128 would leave most of the GPU idle (prefer_large)
//  11  C is the first to leave the caches only where the second-level cache cannot hold it
// Sums are in float32, along k in order.
// One PTX from sm_80 on (CMakeLists.txt): newer GPUs can do nothing more that is used here.
#include "float32_block.h"

KV_FLOAT32_KERNELS(kv_matmul, kv::Plain)

extern "C" KV_API int kv_matmul_cuda(const float* a, const float* b, float* c, int64_t m, int64_t n,
                                     int64_t k, int device, void* stream) {
    return kv::multiply_float32(kv_matmul, a, b, c, m, n, k, kv::Plain{}, device, stream);
}
