// Vectors written around the caches. What is written into them is first read from memory, a line at a time,
// though all of it is replaced; and it puts out what was there. Where a call is larger than the last cache it
// is gone from there before anyone reads it, so that nothing is lost by writing it to memory at once.
// Only x86-64: of aarch64's stores one asks for it (STNP), which GCC has no intrinsic for; there they are ordinary.
#ifndef KV_STREAM_H
#define KV_STREAM_H

#include "kv_simd.h"

namespace kv {

// Whether a call that reads and writes so many bytes is to write around the caches; in caches.cpp.
bool streams(int64_t bytes);

namespace {

// As Cached (kv_simd.h); the address is a multiple of the vector's size. Not ordered with other writes until
// finish().
struct Around {
    template <class Vector>
    static void put(void* to, Vector vector) {
#if defined(__AVX512F__)
        if constexpr (sizeof vector == 64)
            return _mm512_stream_si512(static_cast<__m512i*>(to), bits<__m512i>(vector));
#endif
#if defined(__AVX__)
        if constexpr (sizeof vector == 32)
            return _mm256_stream_si256(static_cast<__m256i*>(to), bits<__m256i>(vector));
#endif
#if defined(__SSE2__) && defined(__x86_64__)
        if constexpr (sizeof vector == 16)
            return _mm_stream_si128(static_cast<__m128i*>(to), bits<__m128i>(vector));
        if constexpr (sizeof vector == 8)
            return _mm_stream_si64(static_cast<long long*>(to), bits<long long>(vector));
        if constexpr (sizeof vector == 4) return _mm_stream_si32(static_cast<int*>(to), bits<int>(vector));
#endif
        Cached::put(to, vector);
    }

    static void finish() {
#if defined(__SSE2__)
        _mm_sfence();
#endif
    }

    // How many items there are from `to` up to a multiple of `size` bytes.
    template <class Item>
    static int64_t before(const Item* to, int64_t size) {
        return (size - reinterpret_cast<intptr_t>(to) % size) % size / static_cast<int64_t>(sizeof(Item));
    }

  private:
    template <class Bits, class Vector>
    static Bits bits(Vector vector) {
        Bits found;
        std::memcpy(&found, &vector, sizeof found);
        return found;
    }
};

// Calls run(Stores()) with the way to write `n` items from `out` on by a call of so many bytes in all.
template <class Item, class Run>
void with_stores(const Item* out, int64_t bytes, const Run& run) {
    if (streams(bytes) && reinterpret_cast<intptr_t>(out) % static_cast<int64_t>(sizeof(Item)) == 0)
        run(Around());
    else
        run(Cached());
}

}  // namespace
}  // namespace kv

#endif  // KV_STREAM_H
