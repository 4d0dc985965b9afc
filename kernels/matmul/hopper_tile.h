// Tiles of C = A B on Hopper's tensor cores, by clusters of two blocks: for matmul_hopper.cu, which says what was tried,
// and for kernels that are a product with something behind it. Compute capability 9.0 (sm_90a) and no other.
//
// Of a block's three warp groups the first asks TMA for stages of A and B, by one thread. The others each multiply half
// of a tile and store it, and do not wait for each other. The two blocks compute tiles beside each other and share the
// factor that both need. Where few tiles are left, they compute one, each with half of k.
//
// A tile is NARROW x WIDE: rows and columns of C where items have 16 bits. Of bytes it lies the other way around: wgmma
// reads them from shared memory along k alone, so that B, which lies along n, must go through registers, and only the
// factor that has 64 rows can, for which the product is transposed.
#ifndef KV_MATMUL_HOPPER_TILE_H
#define KV_MATMUL_HOPPER_TILE_H

#include "hopper_ptx.h"
#include "tiles.h"
#include "warp_mma.h"

namespace kv {

constexpr int NARROW = 128, GROUPS = 2, OF_GROUP = NARROW / GROUPS;  // OF_GROUP: the M of wgmma
constexpr int CLUSTER = 2;                                           // blocks
constexpr int HOPPER_THREADS = (1 + GROUPS) * WARPGROUP;

// Shared memory is in rows of 128 bytes, swizzled: chunk c of 16 bytes of row r lies where chunk c ^ r % 8 would. The
// pattern repeats after eight rows. TMA writes and reads it so, and so does wgmma.
constexpr int ROW = 128, PATTERN = 8 * ROW;

// The descriptor of a factor in shared memory (PTX ISA, matrix descriptor): its rows are along k, or (16 bits) along n
// in stripes of 64 that lie `stripe` bytes apart.
static __device__ inline uint64_t factor_at(const void* from, unsigned stripe = 16) {
    constexpr uint64_t SWIZZLE_128 = uint64_t{1} << 62, PATTERNS_APART = uint64_t{PATTERN >> 4} << 32;
    return SWIZZLE_128 | PATTERNS_APART | uint64_t{stripe >> 4} << 16 | (shared_address(from) & 0x3ffff) >> 4;
}

// Four sums, as they travel between blocks.
static __device__ inline float4 four_of(float x, float y, float z, float w) {
    return make_float4(x, y, z, w);
}
static __device__ inline int4 four_of(int x, int y, int z, int w) { return make_int4(x, y, z, w); }

// How TMA sees the matrices: in boxes of some rows of 128 bytes, HopperTile::BOX_A and so on.
struct HopperMaps {
    CUtensorMap a, b, c;
};

// What a cluster computes: pairs of tiles, in rounds; the tiles of the last round's pairs one by one where there are
// clusters enough for that.
struct HopperWork {
    int m, n, passes;       // passes: of k
    unsigned pairs, split;  // split: the first pair whose tiles are computed one by one
    __host__ __device__ unsigned jobs() const { return split + (pairs - split) * 2; }
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
    static_assert(sizeof(Sum) * NARROW * WIDE <= sizeof(Shared::stages), "see exchange()");

    // Rows of the boxes of A, B and C: half of the rows of the wide factor, since each block of a pair loads a half.
    static constexpr int BOX_A = BYTES ? WIDE / 2 : NARROW, BOX_B = BYTES ? DEPTH : DEPTH / 2, BOX_C = PART;

    // Of a block: its tile of C, and the passes it makes. Both blocks of a cluster make equally many; one too many
    // adds zeros.
    struct Job {
        int row, column, first, passes;
        bool split;

        __device__ Job(const HopperWork& work, unsigned number) {
            split = number >= work.split;
            const unsigned pair = split ? work.split + (number - work.split) / 2 : number;
            const unsigned half = split ? (number - work.split) % 2 : rank();
            const Place place =
                place_of(pair, Tiles(work.m, work.n, BYTES ? ROWS : 2 * ROWS, BYTES ? 2 * COLUMNS : COLUMNS));
            row = static_cast<int>(BYTES ? place.row : 2 * place.row + half) * ROWS;
            column = static_cast<int>(BYTES ? 2 * place.column + half : place.column) * COLUMNS;
            passes = split ? (work.passes + 1) / 2 : work.passes;
            first = split ? static_cast<int>(rank()) * passes : 0;
        }
    };

    static __device__ unsigned rank() { return blockIdx.x % CLUSTER; }  // in the cluster
    static __device__ unsigned first_job() { return blockIdx.x / CLUSTER; }
    static __device__ unsigned jobs_apart() { return gridDim.x / CLUSTER; }
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

    static __device__ void load_wide_half(char* stage, const HopperMaps& maps, const Job& job, int k,
                                          int half, Barrier& full) {
        if constexpr (BYTES) {
            load_box(stage + half * BOX_A * ROW, maps.a, k, job.row + half * BOX_A, full, !job.split);
        } else {
#pragma unroll
            for (int i = 0; i < STRIPES; ++i)
                load_box(stage + OF_A + i * OF_STRIPE + half * BOX_B * ROW, maps.b, job.column + i * STRIPE,
                         k + half * BOX_B, full, !job.split);
        }
    }

    static __device__ void load(char* stage, const HopperMaps& maps, const Job& job, int k, Barrier& full) {
        arrive_and_expect(full, STAGE);
        if constexpr (BYTES)
            load_box(stage + OF_A, maps.b, job.column, k, full, false);
        else
            load_box(stage, maps.a, k, job.row, full, false);
        if (job.split) {
            load_wide_half(stage, maps, job, k, 0, full);
            load_wide_half(stage, maps, job, k, 1, full);
        } else {
            load_wide_half(stage, maps, job, k, static_cast<int>(rank()), full);
        }
    }

    static __device__ void produce(const HopperMaps& maps, Shared& shared, const HopperWork& work) {
        bool split = false;
        Turn turn;
        for (unsigned number = first_job(); number < work.jobs(); number += jobs_apart()) {
            const Job job(work, number);
            split = job.split;
            if (threadIdx.x != 0) continue;
            for (int pass = 0; pass < job.passes; ++pass, turn.next()) {
                wait(shared.empty[turn.slot], turn.parity ^ 1);
                load(shared.stages[turn.slot], maps, job, (job.first + pass) * DEPTH, shared.full[turn.slot]);
            }
        }
        __syncwarp();
        sync_cluster();
        if (split) sync_cluster();
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

    // Both blocks have sums of the same tile. Each sends the other those of every other part, by way of its stages,
    // which are no longer used, and adds what it gets to its own.
    static __device__ void exchange(Sum (&sums)[SUMS], Shared& shared) {
        using Four = decltype(four_of(Sum{}, Sum{}, Sum{}, Sum{}));
        Four* const here =
            reinterpret_cast<Four*>(shared.stages) + group() * (SUMS / 4 * WARPGROUP) + thread();
        Four* const there = at_rank(here, rank() ^ 1);
        sync_cluster();
#pragma unroll
        for (int i = 0; i < SUMS; i += 4)
            if (i / OF_PART % 2 != static_cast<int>(rank()))
                there[i / 4 * WARPGROUP] = four_of(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
        sync_cluster();
#pragma unroll
        for (int i = 0; i < SUMS; i += 4)
            if (i / OF_PART % 2 == static_cast<int>(rank())) {
                const Four four = here[i / 4 * WARPGROUP];
                sums[i] += four.x;
                sums[i + 1] += four.y;
                sums[i + 2] += four.z;
                sums[i + 3] += four.w;
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
                                 const Job& job, const Epilogue& epilogue, int& buffer) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            if (job.split && part % 2 != static_cast<int>(rank())) continue;  // see exchange()
            const int row = job.row + (BYTES ? part * PART : group() * OF_GROUP);
            const int column = job.column + (BYTES ? group() * OF_GROUP : part * PART);
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
                                   const Epilogue& epilogue) {
        bool split = false;
        int buffer = 0;
        Turn turn;
        for (unsigned number = first_job(); number < work.jobs(); number += jobs_apart()) {
            const Job job(work, number);
            Sum sums[SUMS];
            sum_up(sums, shared, job.passes, turn);
            split = job.split;
            if (split) exchange(sums, shared);  // a cluster's last job
            store(maps, sums, shared, job, epilogue, buffer);
        }
        if (thread() == 0) wait_for_stores<0>();
        if (!split) sync_cluster();  // the other block must not arrive at barriers of one that has left
    }

    static __device__ void run(const HopperMaps& maps, const HopperWork& work,
                               const Epilogue& epilogue = {}) {
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
            produce(maps, shared, work);
        } else {
            take_registers<232>();
            consume(maps, shared, work, epilogue);
        }
    }
};

}  // namespace kv

#endif  // KV_MATMUL_HOPPER_TILE_H
