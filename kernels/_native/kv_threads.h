// Splits a range over threads. Plain std::thread instead of OpenMP: a process forked after an OpenMP region
// hangs at its next one, and the benchmarks fork.
#ifndef KV_THREADS_H
#define KV_THREADS_H

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "kv.h"

namespace kv {

// Calls body(begin, end) on `threads` contiguous parts of [0, n), each but the last a multiple of `grain`,
// the first in the calling thread. Parts do not depend on which thread runs them, so results do not depend on
// `threads` as long as body treats its elements alike.
template <class Body>
int parallel_for(int64_t n, int64_t grain, int threads, const Body& body) {
    if (threads < 1) return KV_ERROR_THREADS;
    const int64_t grains = n / grain + (n % grain != 0);
    const int64_t part = (grains / threads + (grains % threads != 0)) * grain;
    if (part >= n) {
        if (n > 0) body(int64_t{0}, n);
        return KV_OK;
    }
    std::vector<std::thread> workers;
    int status = KV_OK;
    try {
        for (int64_t begin = part; begin < n; begin += part)
            workers.emplace_back(body, begin, std::min(begin + part, n));
        body(int64_t{0}, part);
    } catch (const std::system_error&) {
        status = KV_ERROR_SPAWN;
    }
    for (std::thread& worker : workers) worker.join();
    return status;
}

}  // namespace kv

#endif  // KV_THREADS_H
