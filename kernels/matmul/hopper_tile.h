// Tiles of C = A B on Hopper's tensor cores, by clusters of two blocks: for matmul_hopper.cu, which says what was tried,
// and for kernels that are a product with something behind it. Compute capability 9.0 (sm_90a) and no other.
//
// Of a block's three warp groups the first asks TMA for stages of A and B, by one thread. The others each multiply half
// of a tile and store it, and do not wait for each other. The two blocks compute tiles beside each other and share the
// factor that both need. Where few tiles are left, clusters have shares of them (hopper_work.h), and sums of one tile
// are added up in the order of k: every time in the same one.
//
// A tile is NARROW x WIDE: rows and columns of C where items have 16 bits. Of bytes it lies the other way around: wgmma
// reads them from shared memory along k alone, so that B, which lies along n, must go through registers, and only the
// factor that has 64 rows can, for which the product is transposed.
#ifndef KV_MATMUL_HOPPER_TILE_H
#define KV_MATMUL_HOPPER_TILE_H

#include "hopper_ptx.h"
#include "hopper_work.h"
#include "warp_mma.h"

namespace kv {

constexpr int HOPPER_THREADS = (1 + GROUPS) * WARPGROUP;

// Shared memory is in rows of 128 bytes, swizzled: chunk c of 16 bytes of row r lies where chunk c ^ r % 8 would. The
// pattern repeats after eight rows. TMA writes and reads it so, and so does wgmma.
constexpr int PATTERN = 8 * ROW;

// The descriptor of a factor in shared memory (PTX ISA, matrix descriptor): its rows are along k, or (16 bits) along n
// in stripes of 64 that lie `stripe` bytes apart.
static __device__ inline uint64_t factor_at(const void* from, unsigned stripe = 16) {
    constexpr uint64_t SWIZZLE_128 = uint64_t{1} << 62, PATTERNS_APART = uint64_t{PATTERN >> 4} << 32;
    return SWIZZLE_128 | PATTERNS_APART | uint64_t{stripe >> 4} << 16 | (shared_address(from) & 0x3ffff) >> 4;
}

// Four sums, as they travel between clusters.
static __device__ inline float4 four_of(float x, float y, float z, float w) {
    return make_float4(x, y, z, w);
}
static __device__ inline int4 four_of(int x, int y, int z, int w) { return make_int4(x, y, z, w); }

// How TMA sees the matrices: in boxes of some rows of 128 bytes, HopperTile::BOX_A and so on.
struct HopperMaps {
    CUtensorMap a, b, c;
};

// Where clusters send sums: of each share, block and group those of half a tile, and whether they are there. What is
// sent is taken once, so that a launch leaves all of `sent` 0, as it must find it.
struct HopperWorkspace {
    void* sums;
    unsigned* sent;

    static constexpr size_t of_sums(int clusters) {
        return sizeof(float) * NARROW * WIDEST * CLUSTER * static_cast<size_t>(clusters);
    }
    static constexpr size_t of_sent(int clusters) {
        return sizeof(unsigned) * GROUPS * CLUSTER * static_cast<size_t>(clusters);
    }
};

template <class T, int WIDE, class Epilogue = Plain>
struct HopperTile {
    using Sum = typename Product<T>::Sum;
    using Item = typename Product<T>::Item;
    static constexpr bool BYTES = sizeof(T) == 1;
    static constexpr int ROWS = BYTES ? WIDE : NARROW, COLUMNS = BYTES ? NARROW : WIDE;  // of a tile
    static constexpr int STRIPE = ROW / sizeof(T);  // columns of A or B in a row of shared memory
    static constexpr int DEPTH = STRIPE;            // steps of k in a pass
    static constexpr int STEPS = 4;                 // products of 32 bytes of k in a pass
    // A stage: A, ROWS rows of it, and stripes of B, DEPTH rows each.
    static constexpr int OF_A = ROWS * ROW, STRIPES = COLUMNS / STRIPE, OF_STRIPE = DEPTH * ROW;
    static constexpr int STAGE = OF_A + STRIPES * OF_STRIPE, STAGES = 192 * 1024 / STAGE;
    // C is stored in parts: squares of PART x PART items, or two such squares beside each other.
    static constexpr int PART = ROW / sizeof(Item), PARTS = WIDE / PART, SQUARES = OF_GROUP / PART;
    static constexpr int SUMS = WIDE / 2, OF_PART = PART / 2;  // sums of a thread

    struct Shared {
        alignas(PATTERN) char stages[STAGES][STAGE];
        alignas(PATTERN) char parts[GROUPS][2][SQUARES][PART * ROW];
        Barrier full[STAGES], empty[STAGES];
    };
    static constexpr int SHARED = sizeof(Shared) + PATTERN;  // it begins at a multiple of PATTERN
    static_assert(SHARED <= 227 * 1024, "what a block can have");
    static_assert(WIDE <= WIDEST && sizeof(Sum) == sizeof(float), "see HopperWorkspace");

    // Rows of the boxes of A, B and C: half of the rows of the wide factor, since each block of a pair loads a half.
    static constexpr int BOX_A = BYTES ? WIDE / 2 : NARROW, BOX_B = BYTES ? DEPTH : DEPTH / 2, BOX_C = PART;

    // Where a block's tile of a pair begins.
    struct Corner {
        int row, column;

        __device__ Corner(const HopperWork& work, const HopperJob& job) {
            const Place place =
                place_of(static_cast<unsigned>(job.pair),
                         Tiles(work.m, work.n, BYTES ? ROWS : 2 * ROWS, BYTES ? 2 * COLUMNS : COLUMNS));
            row = static_cast<int>(BYTES ? place.row : 2 * place.row + rank()) * ROWS;
            column = static_cast<int>(BYTES ? 2 * place.column + rank() : place.column) * COLUMNS;
        }
    };

    static __device__ unsigned rank() { return blockIdx.x % CLUSTER; }  // in the cluster
    static __device__ int cluster() { return static_cast<int>(blockIdx.x) / CLUSTER; }
    static __device__ int group() { return static_cast<int>(threadIdx.x) / WARPGROUP - 1; }
    static __device__ int thread() { return static_cast<int>(threadIdx.x) % WARPGROUP; }

    // Stages are used in turns; the phases of their barriers alternate.
    struct Turn {
        int slot = 0;
        unsigned parity = 0;
        __device__ void next() {
            if (++slot == STAGES) slot = 0, parity ^= 1;
        }
    };

    // Asks for a stage: the factor that is the block's own, and its half of the one that both blocks of a pair need.
    static __device__ void load(char* stage, const HopperMaps& maps, const Corner& corner, int k,
                                Barrier& full) {
        const int half = static_cast<int>(rank());
        arrive_and_expect(full, STAGE);
        if constexpr (BYTES) {
            load_box(stage + OF_A, maps.b, corner.column, k, full, false);
            load_box(stage + half * BOX_A * ROW, maps.a, k, corner.row + half * BOX_A, full, true);
        } else {
            load_box(stage, maps.a, k, corner.row, full, false);
#pragma unroll
            for (int i = 0; i < STRIPES; ++i)
                load_box(stage + OF_A + i * OF_STRIPE + half * BOX_B * ROW, maps.b,
                         corner.column + i * STRIPE, k + half * BOX_B, full, true);
        }
    }

    static __device__ void produce(const HopperMaps& maps, Shared& shared, const HopperWork& work) {
        HopperJobs jobs;
        HopperJob job;
        Turn turn;
        while (jobs.next(work, cluster(), job)) {
            const Corner corner(work, job);
            for (int pass = job.first; pass < job.first + job.passes; ++pass, turn.next()) {
                wait(shared.empty[turn.slot], turn.parity ^ 1);
                load(shared.stages[turn.slot], maps, corner, pass * DEPTH, shared.full[turn.slot]);
            }
        }
    }

    // A group's columns of B as wgmma takes rows of A: four neighbours of k in a register. ldmatrix, which transposes
    // pairs of bytes, gives neighbouring columns 2 i and 2 i + 1 for rows i and i + 8. Its rows are chosen such that
    // eight that are read at once lie in different banks: lanes 2 and 3 of four get their pairs of k swapped.
    struct Fragments {
        uint32_t of[BYTES ? STEPS : 1][4];
    };
    static __device__ void load_fragments(Fragments& fragments, const char* b) {
        const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, four = lane % 8 / 2;
        const int k = matrix / 2 * 16 + four * 4 + (matrix % 2 ^ four / 2) * 2 + lane % 2;
        const char* const from = b + k * ROW + ((group() * 4 + thread() / 32) ^ k % 8) * 16;
        const bool swapped = lane % 4 >= 2;
        const unsigned even = swapped ? 0x2064 : 0x6420, odd = swapped ? 0x3175 : 0x7531;
#pragma unroll
        for (int q = 0; q < STEPS; ++q) {
            uint32_t words[4];
            load_transposed(words, from + q * 32 * ROW);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                fragments.of[q][i] = __byte_perm(words[i / 2 * 2], words[i / 2 * 2 + 1], i % 2 ? odd : even);
            hold(fragments.of[q]);
        }
    }

    // Begins the products of a pass.
    static __device__ void multiply(Sum (&sums)[SUMS], const char* stage, Fragments& fragments, bool add) {
        if constexpr (BYTES) load_fragments(fragments, stage + OF_A);
        fence_products();
#pragma unroll
        for (int q = 0; q < STEPS; ++q) {
            if constexpr (BYTES)
                Wgmma<T, WIDE>::run(sums, fragments.of[q], factor_at(stage + q * 32), add || q > 0);
            else
                Wgmma<T, WIDE>::run(sums, factor_at(stage + group() * OF_GROUP * ROW + q * 32),
                                    factor_at(stage + OF_A + q * 16 * ROW, OF_STRIPE), add || q > 0);
        }
        commit_products();
    }

    // Says to the producers of both blocks that this warp has read a stage: either may fill it.
    static __device__ void release(Barrier& empty) {
        __syncwarp();
        if (threadIdx.x % 32 < CLUSTER) arrive(empty, threadIdx.x % 32);
    }

    // Products of a pass are under way while the next begins. Then its stage is released.
    static __device__ void sum_up(Sum (&sums)[SUMS], Shared& shared, int passes, Turn& turn) {
        Fragments fragments[2];  // by turns: in registers, so the turns are unrolled
        int before = 0;
        const auto pass = [&](int number, Fragments& of_pass) {
            wait(shared.full[turn.slot], turn.parity);
            multiply(sums, shared.stages[turn.slot], of_pass, number > 0);
            wait_for_products<1>();
            if (number > 0) release(shared.empty[before]);
            before = turn.slot;
            turn.next();
        };
        int number = 0;
        for (; number + 1 < passes; number += 2) {
            pass(number, fragments[0]);
            pass(number + 1, fragments[1]);
        }
        if (number < passes) pass(number, fragments[0]);
        wait_for_products<0>();
        hold(sums);
        release(shared.empty[before]);
    }

    using Four = decltype(four_of(Sum{}, Sum{}, Sum{}, Sum{}));

    // Which sums of a share this group sends, or takes.
    static __device__ int mailbox(int share) {
        return (share * CLUSTER + static_cast<int>(rank())) * GROUPS + group();
    }
    static __device__ Four* sums_of(int share, const HopperWorkspace& workspace) {
        return static_cast<Four*>(workspace.sums) + mailbox(share) * (SUMS / 4 * WARPGROUP) + thread();
    }

    static __device__ void send(const Sum (&sums)[SUMS], const HopperWorkspace& workspace, int share) {
        Four* const to = sums_of(share, workspace);
#pragma unroll
        for (int i = 0; i < SUMS; i += 4)
            __stcg(to + i / 4 * WARPGROUP, four_of(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]));
        sync_warpgroup(1 + group());
        if (thread() == 0) give_signal(workspace.sent[mailbox(share)]);
    }

    // Adds what the shares behind a pair's first one send.
    static __device__ void add_sent(Sum (&sums)[SUMS], const HopperWorkspace& workspace,
                                    const HopperWork& work, const HopperJob& job) {
        const int end = (job.pair - work.whole + 1) * work.passes;
        for (int share = job.share + 1; share < work.shares && work.begin_of(share) < end; ++share) {
            if (thread() == 0) take_signal(workspace.sent[mailbox(share)]);
            sync_warpgroup(1 + group());
            const Four* const from = sums_of(share, workspace);
#pragma unroll
            for (int i = 0; i < SUMS; i += 4) {
                const Four four = __ldcg(from + i / 4 * WARPGROUP);
                sums[i] += four.x;
                sums[i + 1] += four.y;
                sums[i + 2] += four.z;
                sums[i + 3] += four.w;
            }
        }
    }

    // Puts a part's sums, rounded, into shared memory as TMA reads them: swizzled, without conflicts of banks.
    static __device__ void place_part(char* to, const Sum* sums, int column, const Epilogue& epilogue) {
        struct alignas(2 * sizeof(Item)) Two {
            Item of[2];
        };
        const int lane = thread() % 32, top = thread() / 32 * 16;
        float of_columns[2];
        const auto look_at_columns = [&](int left) {
            for (int i = 0; i < 2; ++i) of_columns[i] = epilogue.of_column(column + left + i);
        };
        const auto put = [&](int row, int left, Sum x, Sum y) {
            const int byte = left * static_cast<int>(sizeof(Item));
            char* const square = to + byte / ROW * (PART * ROW);
            Two two;
            round_to(two.of[0], epilogue(x, of_columns[0]));
            round_to(two.of[1], epilogue(y, of_columns[1]));
            *reinterpret_cast<Two*>(square + row * ROW + (byte % ROW / 16 ^ row % 8) * 16 + byte % 16) = two;
        };
        if (BYTES) look_at_columns(top + lane / 4 * 2);
#pragma unroll
        for (int j = 0; j < PART / 8; ++j) {
            const Sum* const four = sums + 4 * j;
            if (!BYTES) look_at_columns(8 * j + lane % 4 * 2);
#pragma unroll
            for (int i = 0; i < 2; ++i)
                if (BYTES)  // see Fragments
                    put(8 * j + lane % 4 * 2 + i, top + lane / 4 * 2, four[i], four[i + 2]);
                else
                    put(top + lane / 4 + 8 * i, 8 * j + lane % 4 * 2, four[2 * i], four[2 * i + 1]);
        }
    }

    static __device__ void store(const HopperMaps& maps, const Sum (&sums)[SUMS], Shared& shared,
                                 const Corner& corner, const Epilogue& epilogue, int& buffer) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            const int row = corner.row + (BYTES ? part * PART : group() * OF_GROUP);
            const int column = corner.column + (BYTES ? group() * OF_GROUP : part * PART);
            auto& squares = shared.parts[group()][buffer];
            if (thread() == 0) wait_for_stores<1>();  // of the part before the last
            sync_warpgroup(1 + group());
            place_part(squares[0], &sums[part * OF_PART], column, epilogue);
            fence_shared();
            sync_warpgroup(1 + group());
            if (thread() == 0) {
#pragma unroll
                for (int i = 0; i < SQUARES; ++i) store_box(maps.c, column + i * PART, row, squares[i]);
                commit_stores();
            }
            buffer ^= 1;
        }
    }

    static __device__ void consume(const HopperMaps& maps, Shared& shared, const HopperWork& work,
                                   const HopperWorkspace& workspace, const Epilogue& epilogue) {
        HopperJobs jobs;
        HopperJob job;
        int buffer = 0;
        Turn turn;
        while (jobs.next(work, cluster(), job)) {
            Sum sums[SUMS];
            sum_up(sums, shared, job.passes, turn);
            if (job.first > 0) {
                send(sums, workspace, job.share);
                continue;
            }
            if (job.passes < work.passes) add_sent(sums, workspace, work, job);
            store(maps, sums, shared, Corner(work, job), epilogue, buffer);
        }
        if (thread() == 0) wait_for_stores<0>();
    }

    static __device__ void run(const HopperMaps& maps, const HopperWork& work,
                               const HopperWorkspace& workspace, const Epilogue& epilogue = {}) {
        extern __shared__ char raw[];
        Shared& shared = *reinterpret_cast<Shared*>(raw + (-shared_address(raw) & (PATTERN - 1)));
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; ++i) {
                init(shared.full[i], 1);
                init(shared.empty[i], CLUSTER * GROUPS * WARPGROUP / 32);
            }
            fence_barriers();
        }
        __syncwarp();
        sync_cluster();
        if (threadIdx.x < WARPGROUP) {
            give_registers<40>();
            if (threadIdx.x == 0) produce(maps, shared, work);
        } else {
            take_registers<232>();
            consume(maps, shared, work, workspace, epilogue);
        }
        __syncwarp();
        sync_cluster();  // the other block must not arrive at barriers of one that has left
    }
};

}  // namespace kv

#endif  // KV_MATMUL_HOPPER_TILE_H
