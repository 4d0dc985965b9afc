// Splits a range over threads; see kv_threads.h.
#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "kv_threads.h"

int kv::run_parts(int64_t n, int64_t grain, int threads, Part part, const void* context) {
    if (threads < 1) return KV_ERROR_THREADS;
    const int64_t grains = n / grain + (n % grain != 0);
    const int64_t size = (grains / threads + (grains % threads != 0)) * grain;
    if (size >= n) {
        if (n > 0) part(context, 0, n);
        return KV_OK;
    }
    std::vector<std::thread> workers;
    int status = KV_OK;
    try {
        for (int64_t begin = size; begin < n; begin += size)
            workers.emplace_back(part, context, begin, std::min(begin + size, n));
        part(context, 0, size);
    } catch (const std::system_error&) {
        status = KV_ERROR_SPAWN;
    } catch (const std::bad_alloc&) {
        status = KV_ERROR_MEMORY;
    }
    for (std::thread& worker : workers) worker.join();
    return status;
}
