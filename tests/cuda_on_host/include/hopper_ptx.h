// Stands in for kernels/matmul/hopper_ptx.h, which is instructions of PTX: the same functions.
#ifndef CUDA_ON_HOST_HOPPER_PTX_H
#define CUDA_ON_HOST_HOPPER_PTX_H

#include "cuda.h"
#include "kv_cuda_float16.h"
#include "warp_mma.h"

namespace kv {

constexpr int WARPGROUP = 128;

static inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(cuda_on_host::shared_offset(pointer));
}

struct Barrier {
    uint64_t state;
};
static inline void init(Barrier& barrier, unsigned arrivals) {
    cuda_on_host::init_barrier(&barrier, arrivals);
}
static inline void fence_barriers() { cuda_on_host::fence_barriers(); }
static inline void arrive(Barrier& barrier, unsigned rank) { cuda_on_host::arrive(&barrier, rank); }
static inline void arrive_and_expect(Barrier& barrier, unsigned bytes) {
    cuda_on_host::arrive_and_expect(&barrier, bytes);
}
static inline void wait(Barrier& barrier, unsigned parity) { cuda_on_host::wait(&barrier, parity); }

static inline void load_box(void* to, const CUtensorMap& map, int column, int row, Barrier& barrier,
                            bool both) {
    cuda_on_host::load_box(to, &map, column, row, &barrier, both ? 3 : 1u << cuda_on_host::rank());
}
static inline void store_box(const CUtensorMap& map, int column, int row, const void* from) {
    cuda_on_host::store_box(&map, column, row, from);
}
static inline void commit_stores() { cuda_on_host::commit_stores(); }
template <int LEFT>
void wait_for_stores() {
    cuda_on_host::wait_for_stores(LEFT);
}

static inline void fence_shared() { cuda_on_host::fence_shared_memory(); }
static inline void sync_warpgroup(int number) {
    cuda_on_host::wait_for_some(static_cast<unsigned>(number), WARPGROUP);
}
template <int REGISTERS>
void take_registers() {
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "what setmaxnreg takes");
}
template <int REGISTERS>
void give_registers() {
    take_registers<REGISTERS>();
}

static inline void sync_cluster() { cuda_on_host::wait_for_cluster(); }
static inline void give_signal(unsigned& signal) { cuda_on_host::give_signal(&signal); }
static inline void take_signal(unsigned& signal) { cuda_on_host::take_signal(&signal); }

static inline void fence_products() { cuda_on_host::fence_products(); }
static inline void commit_products() { cuda_on_host::commit_products(); }
template <int LEFT>
void wait_for_products() {
    cuda_on_host::wait_for_products(LEFT);
}

template <class Registers>
void hold(Registers&) {}

template <class T>
constexpr cuda_on_host::Kind KIND = cuda_on_host::Kind::INT8;
template <>
constexpr cuda_on_host::Kind KIND<Float16> = cuda_on_host::Kind::FLOAT16;
template <>
constexpr cuda_on_host::Kind KIND<Bfloat16> = cuda_on_host::Kind::BFLOAT16;
template <>
constexpr cuda_on_host::Kind KIND<Float8> = cuda_on_host::Kind::FLOAT8;

// Not instrumented: the engine looks at the registers.
template <class T, int N>
struct Wgmma {
    static void run(float (&sums)[N / 2], uint64_t a, uint64_t b, bool add) {
        cuda_on_host::multiply({KIND<T>, N, sums, nullptr, nullptr, a, b, add});
    }
    template <class Sum>
    __attribute__((no_sanitize("thread"))) static void run(Sum (&sums)[N / 2], uint32_t (&a)[4], uint64_t b,
                                                           bool add) {
        uint32_t words[4][32];
        for (unsigned i = 0; i < 4; ++i) {
            cuda_on_host::exchange(~0u, a[i], false);
            for (unsigned lane = 0; lane < 32; ++lane)
                words[i][lane] = static_cast<uint32_t>(cuda_on_host::received(lane));
        }
        cuda_on_host::multiply({KIND<T>, N, sums, words, a, 0, b, add});
    }
};

}  // namespace kv

#endif  // CUDA_ON_HOST_HOPPER_PTX_H
