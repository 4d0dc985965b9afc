// C = A B, row-major float32: A is m x k, B is k x n, C is m x n. CPU.
//
// Cost: 2 m n k FLOP; each matrix crosses memory at least once: 4 (m k + k n + m n) bytes.
// Versions:
//   1  the definition: three loops, one dot product per element of C; B is read down its columns
//   2  loops reordered to rows of B added to rows of C: the inner loop runs along memory and vectorises
#include <algorithm>

#include "../_native/kv.h"
#include "../_native/kv_threads.h"

extern "C" KV_API int kv_matmul_cpu(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k,
                                    int threads) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if ((m * k > 0 && !a) || (k * n > 0 && !b) || (m * n > 0 && !c)) return KV_ERROR_POINTER;
    return kv::parallel_for(m, 1, threads, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            float* __restrict__ row = c + i * n;  // out overlaps neither input: the Python side refuses it
            std::fill(row, row + n, 0.0f);
            for (int64_t p = 0; p < k; ++p) {
                const float factor = a[i * k + p];
                for (int64_t j = 0; j < n; ++j) row[j] += factor * b[p * n + j];
            }
        }
    });
}
