// Multiply-adds in registers, by which the harness measures how much a CPU can compute: no kernel of the suite.
//
//     x = b - a x    `steps` times, for each of n numbers: 2 FLOP a step
//
// A product of matrices says how much the library computes that made it: PyTorch's took half of what a CPU with
// AVX-512 can do here, and kernels that do better were called impossible.
#include "kv_isa.h"
#include "kv_simd.h"
#include "kv_threads.h"

namespace {

// Vectors that are computed in turns: CPUs begin two multiply-adds a cycle, and give the result of one 4 or 5
// cycles later. More would not fit into 16 registers, beside a, b and, without fused multiply-adds, a product.
constexpr int CHAINS = 12;

template <class Numbers, class Item>
inline void run_together(Item* items, Item a, Item b, int64_t steps) {
    Numbers x[CHAINS];
    for (int chain = 0; chain < CHAINS; ++chain) {
        x[chain] = kv::load<Numbers>(items + chain * (sizeof(Numbers) / sizeof(Item)));
    }
    const Numbers factor = kv::all(a), term = kv::all(b);
    for (int64_t step = 0; step < steps; ++step) {
        for (int chain = 0; chain < CHAINS; ++chain) x[chain] = term - factor * x[chain];
    }
    for (int chain = 0; chain < CHAINS; ++chain) {
        kv::store(items + chain * (sizeof(Numbers) / sizeof(Item)), x[chain]);
    }
}

template <class Numbers, class Item>
int start(Item* items, int64_t n, Item a, Item b, int64_t steps, int threads) {
    if (n < 0 || steps < 0) return KV_ERROR_SIZE;
    if (n > 0 && !items) return KV_ERROR_POINTER;
    constexpr int64_t together = CHAINS * kv::LANES<Item>;
    return kv::parallel_for(n, together, threads, [=](int64_t begin, int64_t end) {
        int64_t i = begin;
        for (; i + together <= end; i += together) run_together<Numbers>(items + i, a, b, steps);
        for (; i < end; ++i) {
            for (int64_t step = 0; step < steps; ++step) items[i] = b - a * items[i];
        }
    });
}

}  // namespace

KV_CPU_KERNEL(kv_multiply_adds_cpu, (float* items, int64_t n, float a, float b, int64_t steps, int threads),
              (items, n, a, b, steps, threads)) {
    return start<kv::Floats>(items, n, a, b, steps, threads);
}

KV_CPU_KERNEL(kv_multiply_adds_float64_cpu,
              (double* items, int64_t n, double a, double b, int64_t steps, int threads),
              (items, n, a, b, steps, threads)) {
    return start<kv::Doubles>(items, n, a, b, steps, threads);
}
