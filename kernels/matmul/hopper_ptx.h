// What compute capability 9.0 has and no other: tensor memory access (TMA), barriers in shared memory, products of
// four warps, clusters of blocks. As instructions of PTX for sm_90a.
//
// TMA copies a box of a matrix between global and shared memory. One thread asks. What lies beyond the matrix is zeros,
// and is not written.
#ifndef KV_MATMUL_HOPPER_PTX_H
#define KV_MATMUL_HOPPER_PTX_H

#include <cuda.h>
#include <stdint.h>

#include "../_native/kv_cuda_float16.h"

namespace kv {

constexpr int WARPGROUP = 128;  // threads

static __device__ inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// A barrier in shared memory: a phase ends when all arrivals and all bytes that were announced have come. Phases
// are numbered from 0; `parity` is that of the number.
struct Barrier {
    uint64_t state;
};

static __device__ inline void init(Barrier& barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals)
                 : "memory");
}

// Makes barriers that this thread has initialised known to TMA, and to the other blocks of the cluster.
static __device__ inline void fence_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives at the barrier that lies here in another block of the cluster, or in this one. What this thread has read
// before, whoever waits may overwrite. Its own writes are made known to its block alone: nvcc 13.0 makes a fence of the
// whole device of `.release.cluster`, for which a warp waited as long as for a pass of products.
static __device__ inline void arrive(Barrier& barrier, unsigned rank) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(&barrier)),
        "r"(rank)
        : "memory");
}

// Arrives, and announces bytes that TMA will bring in this phase.
static __device__ inline void arrive_and_expect(Barrier& barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
                 "r"(bytes)
                 : "memory");
}

// Waits until the phase of that parity has ended, which is the present one or the one before.
static __device__ inline void wait(Barrier& barrier, unsigned parity) {
    uint32_t ended;
    do {
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, "
            "p;\n}"
            : "=r"(ended)
            : "r"(shared_address(&barrier)), "r"(parity)
            : "memory");
    } while (!ended);
}

// Copies the box at (column, row) of a matrix to shared memory; its bytes arrive at the barrier. In both blocks of a
// cluster of two, or in this one.
static __device__ inline void load_box(void* to, const CUtensorMap& map, int column, int row,
                                       Barrier& barrier, bool both) {
#define KV_LOAD "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    if (both)
        asm volatile(KV_LOAD ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
                     "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier)),
                     "h"(static_cast<uint16_t>(3))
                     : "memory");
    else
        asm volatile(KV_LOAD " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)), "l"(&map), "r"(column),
                     "r"(row), "r"(shared_address(&barrier))
                     : "memory");
#undef KV_LOAD
}

// Copies a box from shared memory to (column, row) of a matrix. It belongs to the next commit_stores().
static __device__ inline void store_box(const CUtensorMap& map, int column, int row, const void* from) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
        "r"(column), "r"(row), "r"(shared_address(from))
        : "memory");
}

static __device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the last `LEFT` groups of this thread's stores have read shared memory.
template <int LEFT>
static __device__ void wait_for_stores() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

// What this thread has written to shared memory, TMA and wgmma may read after the next barrier.
static __device__ inline void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier of 128 threads: each warp group has a number of its own, 1 or higher.
static __device__ inline void sync_warpgroup(int number) {
    asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}

// Registers of each thread of a warp group from here on.
template <int REGISTERS>
static __device__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
static __device__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// A barrier of all threads of a cluster, for its shared memory, too.
static __device__ inline void sync_cluster() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// Says to another cluster, by a word in global memory that was 0, that what this thread and those that it has met at a
// barrier have written is there.
static __device__ inline void give_signal(unsigned& signal) {
    asm volatile("fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%0], 1;" ::"l"(&signal) : "memory");
}

// Waits for that, and makes the word 0 again.
static __device__ inline void take_signal(unsigned& signal) {
    uint32_t given;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(given) : "l"(&signal) : "memory");
    } while (!given);
    asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(&signal) : "memory");
}

// Registers that wgmma uses may be read and written before this, and used by wgmma after it.
static __device__ inline void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ inline void commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until all but the last `LEFT` groups of products are in their sums, and have read their factors.
template <int LEFT>
static __device__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Nothing that reads or writes these registers is moved across this. The compiler does not know that wgmma uses them
// until it is waited for. Note: without it, nvcc 13.0 reads sums early, and ptxas then waits for each wgmma.
template <int COUNT>
static __device__ void hold(float (&registers)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <class Integer, int COUNT>
static __device__ void hold(Integer (&registers)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// Adds a product to 64 x N sums of a warp group, or puts it in their place. 32 bytes of k: B from shared memory, A
// from there or from registers. Thread t has of each 8 columns two neighbours of row t / 32 * 16 + t % 32 / 4, from
// column t % 4 * 2 on, and those of the row 8 below. In registers, A is as for mma.m16n8 (warp_mma.h), 16 rows a warp.
template <class T, int N>
struct Wgmma;

#define KV_TEN(tens)                                                                                     \
    "%" #tens "0, %" #tens "1, %" #tens "2, %" #tens "3, %" #tens "4, %" #tens "5, %" #tens "6, %" #tens \
    "7, %" #tens "8, %" #tens "9, "
#define KV_SIXTY "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " KV_TEN(1) KV_TEN(2) KV_TEN(3) KV_TEN(4) KV_TEN(5)
#define KV_SUMS_64 "{" KV_SIXTY "%60, %61, %62, %63}, "
#define KV_SUMS_96 "{" KV_SIXTY KV_TEN(6) KV_TEN(7) KV_TEN(8) "%90, %91, %92, %93, %94, %95}, "
#define KV_SUMS_128 \
    "{" KV_SIXTY KV_TEN(6) KV_TEN(7) KV_TEN(8) KV_TEN(9) KV_TEN(10) KV_TEN(11) "%120, %121, %122, %123, " \
                                                                               "%124, %125, %126, %127}, "
#define KV_4(C, i) C(sums[i]), C(sums[i + 1]), C(sums[i + 2]), C(sums[i + 3])
#define KV_16(C, i) KV_4(C, i), KV_4(C, i + 4), KV_4(C, i + 8), KV_4(C, i + 12)
#define KV_OPERANDS_64(C) KV_16(C, 0), KV_16(C, 16), KV_16(C, 32), KV_16(C, 48)
#define KV_OPERANDS_96(C) KV_OPERANDS_64(C), KV_16(C, 64), KV_16(C, 80)
#define KV_OPERANDS_128(C) KV_OPERANDS_96(C), KV_16(C, 96), KV_16(C, 112)

// Both factors from shared memory: A's rows are along k, B's along n.
#define KV_WGMMA_16(T, N, SUMS, TYPES, A, B, ADD)                                                           \
    template <>                                                                                             \
    struct Wgmma<T, N> {                                                                                    \
        static __device__ void run(float (&sums)[SUMS], uint64_t a, uint64_t b, bool add) {                 \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD                                            \
                         ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPES " " KV_SUMS_##SUMS A \
                         ", " B ", p, 1, 1, 0, 1;\n}"                                                       \
                         : KV_OPERANDS_##SUMS("+f")                                                         \
                         : "l"(a), "l"(b), "r"(static_cast<int>(add)));                                     \
        }                                                                                                   \
    }
KV_WGMMA_16(Float16, 128, 64, "f16.f16", "%64", "%65", "%66");
KV_WGMMA_16(Float16, 192, 96, "f16.f16", "%96", "%97", "%98");
KV_WGMMA_16(Float16, 256, 128, "f16.f16", "%128", "%129", "%130");
KV_WGMMA_16(Bfloat16, 128, 64, "bf16.bf16", "%64", "%65", "%66");
KV_WGMMA_16(Bfloat16, 192, 96, "bf16.bf16", "%96", "%97", "%98");
KV_WGMMA_16(Bfloat16, 256, 128, "bf16.bf16", "%128", "%129", "%130");

// A from registers; B's rows are along k.
#define KV_WGMMA_8(T, N, SUM, C, SUMS, TYPES, A, B, ADD, SIGNS)                                             \
    template <>                                                                                             \
    struct Wgmma<T, N> {                                                                                    \
        static __device__ void run(SUM (&sums)[SUMS], const uint32_t* a, uint64_t b, bool add) {            \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD                                            \
                         ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k32." TYPES " " KV_SUMS_##SUMS A     \
                         ", " B ", p" SIGNS ";\n}"                                                          \
                         : KV_OPERANDS_##SUMS(C)                                                            \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add))); \
        }                                                                                                   \
    }
KV_WGMMA_8(int8_t, 128, int, "+r", 64, "s32.s8.s8", "{%64, %65, %66, %67}", "%68", "%69", "");
KV_WGMMA_8(int8_t, 192, int, "+r", 96, "s32.s8.s8", "{%96, %97, %98, %99}", "%100", "%101", "");
KV_WGMMA_8(int8_t, 256, int, "+r", 128, "s32.s8.s8", "{%128, %129, %130, %131}", "%132", "%133", "");
KV_WGMMA_8(Float8, 128, float, "+f", 64, "f32.e4m3.e4m3", "{%64, %65, %66, %67}", "%68", "%69", ", 1, 1");
KV_WGMMA_8(Float8, 192, float, "+f", 96, "f32.e4m3.e4m3", "{%96, %97, %98, %99}", "%100", "%101", ", 1, 1");
KV_WGMMA_8(Float8, 256, float, "+f", 128, "f32.e4m3.e4m3", "{%128, %129, %130, %131}", "%132", "%133",
           ", 1, 1");

#undef KV_WGMMA_16
#undef KV_WGMMA_8
#undef KV_TEN
#undef KV_SIXTY
#undef KV_SUMS_64
#undef KV_SUMS_96
#undef KV_SUMS_128
#undef KV_4
#undef KV_16
#undef KV_OPERANDS_64
#undef KV_OPERANDS_96
#undef KV_OPERANDS_128

}  // namespace kv

#endif  // KV_MATMUL_HOPPER_PTX_H
