// How a product is shared out among clusters of two blocks (hopper_tile.h): whole pairs of tiles in rounds, and what is
// left of them in equal shares of passes over k. Arithmetic alone, for the launcher, the kernels and the tests.
#ifndef KV_MATMUL_HOPPER_WORK_H
#define KV_MATMUL_HOPPER_WORK_H

#include <algorithm>

#include "tiles.h"

namespace kv {

constexpr int NARROW = 128, GROUPS = 2, OF_GROUP = NARROW / GROUPS;  // OF_GROUP: the M of wgmma
constexpr int CLUSTER = 2;                                           // blocks
constexpr int WIDEST = 256;                                          // of a tile
constexpr int ROW = 128;  // bytes of k in a pass, and of a row in shared memory

// What clusters compute. The first `whole` pairs of tiles, a multiple of their number, they compute by turns. Then
// `shares` of them have each an equal part of the passes of all other pairs, in the order of the pairs (stream-K: Osama,
// Merrill, Cecka, Garland, Owens, Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication
// on the GPU, 2023). 0: there are no others.
struct HopperWork {
    int m, n, passes;  // passes: of k
    int pairs, whole, shares, clusters;

    // The first pass of a share, counted through the pairs that are shared; that of `shares` is the end.
    __host__ __device__ int begin_of(int share) const {
        const int all = (pairs - whole) * passes, each = all / shares, more = all % shares;
        return share * each + (share < more ? share : more);
    }
};

// Some passes of a pair. `share`: whose they are; -1: a whole pair.
struct HopperJob {
    int pair, first, passes, share;
};

// The jobs of a cluster, one after the other. Of a pair in shares the first one's sums become C: it waits for those of
// the shares behind it. Each of them sends its sums in its first job, and belongs to a cluster of a lower number. So
// whoever is waited for began before, and waits for nobody until it has sent.
struct HopperJobs {
    int round = 0, place = -1;  // place: the next pass of the share

    // Returns whether there is another job of a cluster.
    __host__ __device__ bool next(const HopperWork& work, int cluster, HopperJob& job) {
        const int pair = round * work.clusters + cluster, share = work.shares - 1 - cluster;
        if (pair < work.whole) {
            ++round;
            job = {pair, 0, work.passes, -1};
            return true;
        }
        if (share < 0) return false;
        if (place < 0) place = work.begin_of(share);
        const int first = place % work.passes, left = work.begin_of(share + 1) - place;
        job = {work.whole + place / work.passes, first, work.passes - first, share};
        if (left < job.passes) job.passes = left;
        place += job.passes;
        return left > 0;
    }
};

// A way to share a product out, and about how many clocks it takes. An estimate, not a measurement: a pass takes the
// tensor cores 4 WIDE clocks, and the second-level cache one for each 32 bytes that a multiprocessor loads. To fill and
// drain the stages, and to store, adds 1000 and 4 WIDE. To send the sums of a tile through that cache, or to add what
// was sent, takes 16 WIDE.
struct HopperPlan {
    HopperWork work;
    int64_t clocks;

    int clusters() const { return work.whole > 0 ? work.clusters : work.shares; }
    bool is_shared() const { return work.shares > work.pairs - work.whole; }
};

// The rule: as many rounds of whole pairs as all clusters have, and for the rest the quickest by the estimate of one
// more round, some shares for each pair, or a share for each cluster.
template <class T>
HopperPlan hopper_plan(int wide, int64_t m, int64_t n, int64_t k, int processors) {
    const int clusters = std::max(processors / CLUSTER, 1);
    const Tiles tiles = sizeof(T) == 1 ? Tiles(m, n, wide, 2 * NARROW) : Tiles(m, n, 2 * NARROW, wide);
    const int pairs = static_cast<int>(tiles.rows * tiles.columns), rest = pairs % clusters;
    const int passes = static_cast<int>((k * static_cast<int64_t>(sizeof(T)) + ROW - 1) / ROW);
    const int64_t of_pass = 4 * std::max(wide, NARROW + wide / 2), around = 1000 + 4 * wide;
    const int64_t rounds = pairs / clusters * (passes * of_pass + around);
    HopperPlan best = {{static_cast<int>(m), static_cast<int>(n), passes, pairs, pairs, 0, clusters}, rounds};
    if (rest == 0) return best;
    best.work.whole = pairs - rest;
    best.work.shares = rest;
    best.clocks += passes * of_pass + around;
    for (int shares = rest; shares < std::min(clusters, rest * passes);) {
        shares = std::min(shares + rest, clusters);
        if (shares > rest * passes) break;
        const bool crosses = shares % rest > 0;  // from a pair to the next
        const int64_t of_share = (rest * static_cast<int64_t>(passes) + shares - 1) / shares;
        const int64_t sharing = (passes + of_share - 1) / of_share + crosses;
        const int64_t clocks = rounds + of_share * of_pass + (1 + crosses) * around + sharing * 16 * wide;
        if (clocks >= best.clocks) continue;
        best.clocks = clocks;
        best.work.shares = shares;
    }
    return best;
}

}  // namespace kv

#endif  // KV_MATMUL_HOPPER_WORK_H
