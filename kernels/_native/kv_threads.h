// Splits a range over threads. Plain std::thread instead of OpenMP: a process forked after an OpenMP region
// hangs at its next one, and the benchmarks fork.
#ifndef KV_THREADS_H
#define KV_THREADS_H

#include "kv.h"

namespace kv {

using Part = void (*)(const void* context, int64_t begin, int64_t end);

// parallel_for without its types. In threads.cpp, once for all instruction sets: <thread> has functions that
// are no template, and the linker must not find those compiled for AVX-512.
int run_parts(int64_t n, int64_t grain, int threads, Part part, const void* context);

namespace {

// Calls body(begin, end) on `threads` contiguous parts of [0, n), each but the last a multiple of `grain`,
// the first in the calling thread. Parts do not depend on which thread runs them, so results do not depend on
// `threads` as long as body treats its elements alike.
template <class Body>
int parallel_for(int64_t n, int64_t grain, int threads, const Body& body) {
    const auto part = [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
    };
    return run_parts(n, grain, threads, part, &body);
}

}  // namespace

}  // namespace kv

#endif  // KV_THREADS_H
