// What ../include/hopper_ptx.h is written with: the instructions of compute capability 9.0 that work beside the threads.
#ifndef CUDA_ON_HOST_HOPPER_H
#define CUDA_ON_HOST_HOPPER_H

#include "engine.h"

struct TensorMap {
    alignas(64) uint64_t opaque[16];
};

namespace cuda_on_host {

constexpr unsigned WARPGROUP = 128;

// Barriers in shared memory.
void init_barrier(const void* at, unsigned arrivals);
void fence_barriers();
void arrive(const void* at, unsigned of_rank);
void arrive_and_expect(const void* at, unsigned bytes);
void wait(const void* at, unsigned parity);

// Between clusters: a word of global memory, and what was written before it was made 1.
void give_signal(unsigned* signal);
void take_signal(unsigned* signal);

// A map of a matrix with two axes, `sizes` items each, the first along memory. Returns 0, or 1: not what CUDA asks for.
unsigned encode_map(TensorMap* map, void* base, const uint64_t* sizes, const uint64_t* strides,
                    const uint32_t* box, const uint32_t* steps, unsigned item, unsigned swizzle);
// To the blocks of the cluster that are bits of `ranks`.
void load_box(const void* to, const TensorMap* map, int column, int row, const void* barrier, unsigned ranks);
void store_box(const TensorMap* map, int column, int row, const void* from);
void commit_stores();
void wait_for_stores(unsigned groups_left);

// A warp's part of a product, 16 x `columns` sums, of 32 bytes of k: B is in shared memory, A as well or in registers.
enum class Kind { FLOAT16, BFLOAT16, INT8, FLOAT8 };
struct Product {
    Kind kind;
    unsigned columns;
    void* sums;
    const uint32_t (*a_words)[WARP];  // of all lanes; null: A is in shared memory
    void* a_registers;                // this lane's; null: the same
    uint64_t a, b;  // descriptors: of 16 bits A's rows are along k, B's along n, else B's along k
    bool add;
};
void fence_products();
void multiply(const Product& product);
void commit_products();
void wait_for_products(unsigned groups_left);

}  // namespace cuda_on_host

#endif  // CUDA_ON_HOST_HOPPER_H
