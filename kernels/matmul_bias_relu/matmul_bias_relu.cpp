// C = relu(A B + bias), row-major float32: A is m x k, B is k x n, bias has n elements, C is m x n. CPU.
//
// Cost: 2 m n k + 2 m n FLOP; each array crosses memory at least once: 4 (m k + k n + n + m n) bytes.
// Versions:
//   1  the product of matmul.cpp (../matmul/float32_blocks_cpu.h), which adds and clamps each block of C when its
//      sums are whole, while it is in the second-level cache
// Sums are in float32, along k in order, in blocks; NaN stays NaN.
#include "../_native/kv_isa.h"
#include "../matmul/float32_blocks_cpu.h"

namespace {

struct BiasRelu {
    const float* bias;

    void operator()(float* c, int64_t stride, int64_t rows, int64_t columns, int64_t first) const {
        const float* const of_columns = bias + first;
        for (int64_t i = 0; i < rows; ++i, c += stride)
            for (int64_t j = 0; j < columns; ++j) {
                const float value = c[j] + of_columns[j];
                c[j] = value < 0.0f ? 0.0f : value;
            }
    }
};

}  // namespace

KV_CPU_KERNEL(kv_matmul_bias_relu_cpu,
              (const float* a, const float* b, const float* bias, float* c, int64_t m, int64_t n, int64_t k,
               int threads),
              (a, b, bias, c, m, n, k, threads)) {
    if (m < 0 || n < 0 || k < 0) return KV_ERROR_SIZE;
    if ((m * k > 0 && !a) || (k * n > 0 && !b) || (m * n > 0 && (!bias || !c))) return KV_ERROR_POINTER;
    return kv::multiply(a, b, c, m, n, k, threads, BiasRelu{bias});
}
