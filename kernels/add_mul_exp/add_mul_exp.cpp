// out = exp((x + y) * 2), float32, element by element. CPU.
//
// Cost: 3 FLOP and 12 bytes per element (two reads, one write).
// Versions:
//   1  a plain loop around std::exp: one call per element, not vectorised
#include <cmath>

#include "../_native/kv.h"
#include "../_native/kv_threads.h"

extern "C" KV_API int kv_add_mul_exp_cpu(const float* x, const float* y, float* out, int64_t n, int threads) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n > 0 && (!x || !y || !out)) return KV_ERROR_POINTER;
    return kv::parallel_for(n, 16, threads, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) out[i] = std::exp((x[i] + y[i]) * 2.0f);
    });
}
