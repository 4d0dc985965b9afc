// A product of 64 x 128 on Hopper's tensor cores, right and with one fault each, which the engine must find: A, 64 rows
// along k, B, along n, and C of float16. A cluster of two blocks, each with its half of C: A goes to both. A warp group
// asks for copies, another multiplies and stores.
#include <cuda_runtime.h>

#include "hopper_ptx.h"

using kv::Barrier;

constexpr int ROW = 128;  // bytes of a row in shared memory
constexpr int STAGES = 2, DEPTH = 64, K = 5 * DEPTH, N = 128, OF_A = 64 * ROW, OF_STRIPE = DEPTH * ROW;

struct Maps {
    CUtensorMap a, b, c;
};

enum Fault {
    RIGHT,
    WRONG_PARITY,
    NO_WAIT_FOR_A_STAGE,
    STAGE_REUSED_UNSEEN,
    STAGE_RELEASED_EARLY,
    RELEASED_BY_ONE_LANE,
    RELEASED_IN_ONE_BLOCK,
    TOO_FEW_BYTES,
    TOO_MANY_ARRIVALS,
    BARRIERS_NOT_FENCED,
    BARRIERS_NOT_SYNCED,
    NO_FENCE,
    NO_COMMIT,
    SUMS_READ_EARLY,
    SUMS_CHANGED,
    UNFENCED_SUMS,
    STORE_NOT_FENCED,
    STORE_NOT_SYNCED,
    STORE_OVERWRITTEN,
    STORE_LEFT,
    BLOCK_LEFT,
    NO_SWIZZLE,
    WRONG_STRIPE,
    WRONG_GROUPS,
    MISPLACED_BOX,
};

struct Shared {
    alignas(1024) char stages[STAGES][OF_A + 2 * OF_STRIPE];
    alignas(1024) char c[2][64 * ROW];
    Barrier full[STAGES], empty[STAGES];
};

template <Fault FAULT>
__device__ void load(const Maps& maps, Shared& shared) {
    const unsigned rank = blockIdx.x % 2;
    for (int pass = 0; pass < K / DEPTH; ++pass) {
        const int slot = pass % STAGES;
        Barrier& full = shared.full[slot];
        char* const stage = shared.stages[slot];
        if (FAULT != STAGE_REUSED_UNSEEN) kv::wait(shared.empty[slot], pass / STAGES % 2 ^ 1);
        kv::arrive_and_expect(full, FAULT == TOO_FEW_BYTES ? OF_A : OF_A + 2 * OF_STRIPE);
        // Half of A's rows are loaded by each block, for both.
        kv::load_box(stage + rank * OF_A / 2, maps.a, pass * DEPTH, static_cast<int>(rank) * 32, full, true);
        for (int i = 0; i < 2; ++i)
            kv::load_box(stage + OF_A + i * OF_STRIPE + (FAULT == MISPLACED_BOX) * 128, maps.b,
                         static_cast<int>(rank) * N + i * 64, pass * DEPTH, full, false);
    }
}

template <Fault FAULT>
__device__ void release(Barrier& empty) {
    if (FAULT != RELEASED_BY_ONE_LANE) __syncwarp();
    if (threadIdx.x % 32 < (FAULT == RELEASED_IN_ONE_BLOCK ? 1u : 2u)) kv::arrive(empty, threadIdx.x % 32);
    if (FAULT == TOO_MANY_ARRIVALS && threadIdx.x % 32 == 2) kv::arrive(empty, 0);
}

// A matrix descriptor as the PTX ISA has it: a swizzle of 128 bytes, distances of stripes and of groups of eight rows.
__device__ uint64_t factor(const char* from, int stripe, int groups) {
    return uint64_t{1} << 62 | static_cast<uint64_t>(groups / 16) << 32 |
           static_cast<uint64_t>(stripe / 16) << 16 | kv::shared_address(from) / 16;
}

template <Fault FAULT>
__device__ void multiply(float (&sums)[N / 2], Shared& shared) {
    for (int pass = 0; pass < K / DEPTH; ++pass) {
        const int slot = pass % STAGES;
        const char* const stage = shared.stages[slot];
        if (FAULT != NO_WAIT_FOR_A_STAGE)
            kv::wait(shared.full[slot], pass / STAGES % 2 ^ (FAULT == WRONG_PARITY));
        if (FAULT != NO_FENCE) kv::fence_products();
        if (FAULT == UNFENCED_SUMS && pass == 2) sums[3] += 1;
        for (int q = 0; q < 4; ++q)
            kv::Wgmma<kv::Float16, N>::run(
                sums, factor(stage + q * 32, 16, 8 * ROW),
                factor(stage + OF_A + q * 16 * ROW, FAULT == WRONG_STRIPE ? OF_STRIPE / 2 : OF_STRIPE,
                       FAULT == WRONG_GROUPS ? 9 * ROW : 8 * ROW),
                pass + q > 0);
        if (FAULT != NO_COMMIT) kv::commit_products();
        if (FAULT == SUMS_CHANGED && pass == 2) sums[3] = 0;
        if (FAULT == STAGE_RELEASED_EARLY) release<FAULT>(shared.empty[slot]);
        kv::wait_for_products<FAULT == SUMS_READ_EARLY ? 1 : 0>();
        if (FAULT != STAGE_RELEASED_EARLY) release<FAULT>(shared.empty[slot]);
    }
}

template <Fault FAULT>
__device__ void store(const Maps& maps, const float (&sums)[N / 2], Shared& shared) {
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
    for (int half = 0; half < 2; ++half) {
        char* const to = shared.c[FAULT == STORE_OVERWRITTEN ? 0 : half];
        for (int i = 0; i < N / 4; ++i) {
            const int row = thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8,
                      column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            kv::Float16 item;
            kv::round_to(item, sums[half * N / 4 + i]);
            *reinterpret_cast<kv::Float16*>(to + row * ROW + (column / 8 ^ row % 8) * 16 + column % 8 * 2) =
                item;
        }
        if (FAULT != STORE_NOT_FENCED) kv::fence_shared();
        if (FAULT != STORE_NOT_SYNCED) kv::sync_warpgroup(1);
        if (thread == 0) {
            kv::store_box(maps.c, static_cast<int>(blockIdx.x % 2) * N + half * 64, 0, to);
            kv::commit_stores();
        }
    }
    if (thread == 0 && FAULT != STORE_LEFT) kv::wait_for_stores<0>();
}

template <Fault FAULT>
__device__ void product(const Maps& maps) {
    extern __shared__ char raw[];
    Shared& shared = *reinterpret_cast<Shared*>(raw);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            kv::init(shared.full[i], 1);
            kv::init(shared.empty[i], FAULT == RELEASED_IN_ONE_BLOCK ? 4 : 8);
        }
        if (FAULT != BARRIERS_NOT_FENCED) kv::fence_barriers();
    }
    if (FAULT != BARRIERS_NOT_SYNCED) kv::sync_cluster();
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0) load<FAULT>(maps, shared);
    } else {
        float sums[N / 2];
        multiply<FAULT>(sums, shared);
        store<FAULT>(maps, sums, shared);
    }
    if (FAULT != BLOCK_LEFT) kv::sync_cluster();
}

// Two clusters: the second one waits for 256 numbers of the first one, and adds them up.
enum SignalFault { SIGNALLED, SIGNAL_NOT_AWAITED, SIGNAL_BEFORE_BARRIER, SIGNAL_LEFT, SIGNAL_OF_LATER };

template <SignalFault FAULT>
__device__ void signal(unsigned* numbers, unsigned* sent, float* out) {
    const bool sends = (blockIdx.x / 2 == 0) != (FAULT == SIGNAL_OF_LATER);
    const int mine = static_cast<int>(threadIdx.x) % 128, at = static_cast<int>(blockIdx.x % 2) * 128 + mine;
    if (sends) {
        numbers[at] = static_cast<unsigned>(at);
        if (FAULT != SIGNAL_BEFORE_BARRIER) kv::sync_warpgroup(1);
        if (mine == 0) kv::give_signal(sent[blockIdx.x % 2]);
    } else if (FAULT != SIGNAL_LEFT) {
        if (mine == 0 && FAULT != SIGNAL_NOT_AWAITED) kv::take_signal(sent[blockIdx.x % 2]);
        kv::sync_warpgroup(1);
        out[at] = static_cast<float>(numbers[at / 128 * 128 + (at + 1) % 128]);
    }
}

template <class Item>
bool map(CUtensorMap& map, Item* matrix, unsigned rows, unsigned columns, unsigned box_rows,
         bool swizzles = true) {
    const cuuint64_t sizes[] = {columns, rows}, strides[] = {columns * sizeof(Item)};
    const cuuint32_t box[] = {64, box_rows}, steps[] = {1, 1};
    return cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, matrix, sizes, strides, box,
                                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  swizzles ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// A has `rows` rows of K items, B K of n, C `rows` of n.
template <class Kernel>
int launch(Kernel* kernel, bool swizzles, kv::Float16* a, kv::Float16* b, kv::Float16* c, unsigned rows,
           unsigned n) {
    Maps maps;
    if (!map(maps.a, a, rows, K, 32, swizzles) || !map(maps.b, b, K, n, DEPTH) ||
        !map(maps.c, c, rows, n, 64))
        return 1;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)) !=
        cudaSuccess)
        return 2;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(2);
    config.blockDim = dim3(256);
    config.dynamicSmemBytes = sizeof(Shared);
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, maps);
}

#define ENTRY_POINT(FAULT)                                                                                  \
    extern "C" __global__ void product_##FAULT(const __grid_constant__ Maps maps) { product<FAULT>(maps); } \
    extern "C" int kv_##FAULT##_cuda(kv::Float16* a, kv::Float16* b, kv::Float16* c, int64_t rows,          \
                                     int64_t n, int, void*) {                                               \
        return launch(product_##FAULT, FAULT != NO_SWIZZLE, a, b, c, static_cast<unsigned>(rows),           \
                      static_cast<unsigned>(n));                                                            \
    }
#define SIGNAL_ENTRY_POINT(FAULT)                                                              \
    extern "C" __global__ void kernel_##FAULT(unsigned* numbers, unsigned* sent, float* out) { \
        signal<FAULT>(numbers, sent, out);                                                     \
    }                                                                                          \
    extern "C" int kv_##FAULT##_cuda(float* out, int, void*) {                                 \
        static void* memory = nullptr;                                                         \
        if (!memory && cudaMallocAsync(&memory, 1032, nullptr) != cudaSuccess) return 1;       \
        unsigned* const numbers = static_cast<unsigned*>(memory);                              \
        cudaMemsetAsync(numbers + 256, 0, 8, nullptr);                                         \
        cudaLaunchAttribute cluster = {};                                                      \
        cluster.id = cudaLaunchAttributeClusterDimension;                                      \
        cluster.val.clusterDim = {2, 1, 1};                                                    \
        cudaLaunchConfig_t config = {dim3(4), dim3(128), 0, nullptr, &cluster, 1};             \
        return cudaLaunchKernelEx(&config, kernel_##FAULT, numbers, numbers + 256, out);       \
    }
SIGNAL_ENTRY_POINT(SIGNALLED)
SIGNAL_ENTRY_POINT(SIGNAL_NOT_AWAITED)
SIGNAL_ENTRY_POINT(SIGNAL_BEFORE_BARRIER)
SIGNAL_ENTRY_POINT(SIGNAL_LEFT)
SIGNAL_ENTRY_POINT(SIGNAL_OF_LATER)
ENTRY_POINT(RIGHT)
ENTRY_POINT(WRONG_PARITY)
ENTRY_POINT(NO_WAIT_FOR_A_STAGE)
ENTRY_POINT(STAGE_REUSED_UNSEEN)
ENTRY_POINT(STAGE_RELEASED_EARLY)
ENTRY_POINT(RELEASED_BY_ONE_LANE)
ENTRY_POINT(RELEASED_IN_ONE_BLOCK)
ENTRY_POINT(TOO_FEW_BYTES)
ENTRY_POINT(TOO_MANY_ARRIVALS)
ENTRY_POINT(BARRIERS_NOT_FENCED)
ENTRY_POINT(BARRIERS_NOT_SYNCED)
ENTRY_POINT(NO_FENCE)
ENTRY_POINT(NO_COMMIT)
ENTRY_POINT(SUMS_READ_EARLY)
ENTRY_POINT(SUMS_CHANGED)
ENTRY_POINT(UNFENCED_SUMS)
ENTRY_POINT(STORE_NOT_FENCED)
ENTRY_POINT(STORE_NOT_SYNCED)
ENTRY_POINT(STORE_OVERWRITTEN)
ENTRY_POINT(STORE_LEFT)
ENTRY_POINT(BLOCK_LEFT)
ENTRY_POINT(NO_SWIZZLE)
ENTRY_POINT(WRONG_STRIPE)
ENTRY_POINT(WRONG_GROUPS)
ENTRY_POINT(MISPLACED_BOX)
