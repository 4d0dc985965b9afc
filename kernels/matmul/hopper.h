// The way from matmul's CUDA kernels to those for Hopper alone, which are compiled by themselves (matmul_hopper.cu).
#ifndef KV_MATMUL_HOPPER_H
#define KV_MATMUL_HOPPER_H

#include "tiles.h"

namespace kv {

// Whether they take a product: TMA reads rows at multiples of 16 bytes, and below 64 rows or columns, or one pass of
// 128 bytes of k, most of a tile would be zeros.
template <class T>
bool is_for_hopper(const T* a, const T* b, const typename Product<T>::Item* c, int64_t m, int64_t n,
                   int64_t k) {
    constexpr int64_t PER = 16 / sizeof(T), MOST = INT_MAX / 2;
    return m >= 64 && n >= 64 && k >= 8 * PER && m <= MOST && n <= MOST && k <= MOST &&
           blocks_for(Tiles(m, n, 128)) > 0 && k % PER == 0 && n % PER == 0 && is_aligned(a, 16) &&
           is_aligned(b, 16) && is_aligned(c, 16);
}

// Launches such a product; returns a status. Defined for what a build with KV_SM_90A has.
template <class T, class Epilogue>
int multiply_on_hopper(const T* a, const T* b, typename Product<T>::Item* c, int64_t m, int64_t n, int64_t k,
                       const Epilogue& epilogue, int device, void* stream);

}  // namespace kv

#endif  // KV_MATMUL_HOPPER_H
