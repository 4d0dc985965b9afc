// Streams of float32 through memory, by which the harness measures what a machine can do: no kernels of the suite.
//
//     copy   a = b             8 bytes per element
//     triad  a = b + 1.5 c    12 bytes per element
//
// They write around the caches at any size. An ordinary store first fetches the line that it fills: a third of
// the traffic of a copy, a quarter of that of a triad, of which nobody who counts the bytes of the task knows.
// A ceiling measured with such stores is below what kernels reach that do without.
#include <algorithm>

#include "kv_isa.h"
#include "kv_stream.h"
#include "kv_threads.h"

namespace {

using kv::Around;
using kv::Floats;
using kv::WIDTH;

// at<Numbers>(i): element i of what is written, or a vector of them from there on.
struct Copy {
    const float* b;

    template <class Numbers>
    Numbers at(int64_t i) const {
        return kv::load<Numbers>(b + i);
    }
};

struct Triad {
    const float *b, *c;

    template <class Numbers>
    Numbers at(int64_t i) const {
        return kv::load<Numbers>(b + i) + 1.5f * kv::load<Numbers>(c + i);
    }
};

template <class Stream>
void run(const Stream& stream, float* a, int64_t begin, int64_t end) {
    const int64_t aligned = std::min<int64_t>(end, begin + Around::before(a + begin, sizeof(Floats)));
    int64_t i = begin;
    for (; i < aligned; ++i) a[i] = stream.template at<float>(i);
    for (; i + WIDTH <= end; i += WIDTH) Around::put(a + i, stream.template at<Floats>(i));
    for (; i < end; ++i) a[i] = stream.template at<float>(i);
    Around::finish();
}

template <class Stream>
int start(const Stream& stream, float* a, int64_t n, int threads) {
    if (reinterpret_cast<intptr_t>(a) % static_cast<int64_t>(sizeof(float)) != 0) return KV_ERROR_ALIGN;
    return kv::parallel_for(n, WIDTH, threads,
                            [=](int64_t begin, int64_t end) { run(stream, a, begin, end); });
}

}  // namespace

KV_CPU_KERNEL(kv_stream_copy_cpu, (const float* b, float* a, int64_t n, int threads), (b, a, n, threads)) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n > 0 && (!b || !a)) return KV_ERROR_POINTER;
    return start(Copy{b}, a, n, threads);
}

KV_CPU_KERNEL(kv_stream_triad_cpu, (const float* b, const float* c, float* a, int64_t n, int threads),
              (b, c, a, n, threads)) {
    if (n < 0) return KV_ERROR_SIZE;
    if (n > 0 && (!b || !c || !a)) return KV_ERROR_POINTER;
    return start(Triad{b, c}, a, n, threads);
}
