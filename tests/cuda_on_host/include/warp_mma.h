// Stands in for kernels/matmul/warp_mma.h, which is instructions of PTX: the same functions, lane by lane.
#ifndef CUDA_ON_HOST_WARP_MMA_H
#define CUDA_ON_HOST_WARP_MMA_H

#include <type_traits>

#include "kv_cuda_float16.h"

namespace kv {

// Where the rows of the four matrices begin that the lanes name. A GPU reads the eight rows of a matrix at once, as it
// reads 16 bytes for each of eight lanes.
inline void offer_row(const void* row) {
    static const char site = 0;
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
        cuda_on_host::fault("a row that is not aligned to 16 bytes");
    cuda_on_host::note_access(&site, row, 16, false, cuda_on_host::SHARED_MEMORY);
    cuda_on_host::exchange(~0u, reinterpret_cast<uintptr_t>(row), false);
}

// Not instrumented: offer_row has noted the access.
template <class Item>
__attribute__((no_sanitize("thread"))) Item item_of(unsigned row, unsigned item) {
    const Item* const at = reinterpret_cast<const Item*>(cuda_on_host::received(row)) + item;
    cuda_on_host::check(at, sizeof(Item), false, sizeof(Item));
    return *at;
}

inline void load_matrices(uint32_t (&words)[4], const void* row) {
    offer_row(row);
    const unsigned lane = cuda_on_host::lane();
    for (unsigned i = 0; i < 4; ++i) words[i] = item_of<uint32_t>(i * 8 + lane / 4, lane % 4);
}

inline void load_transposed(uint32_t (&words)[4], const void* row) {
    offer_row(row);
    const unsigned lane = cuda_on_host::lane(), first = lane % 4 * 2, item = lane / 4;
    for (unsigned i = 0; i < 4; ++i) {
        const uint32_t low = item_of<uint16_t>(i * 8 + first, item);
        words[i] = low | uint32_t{item_of<uint16_t>(i * 8 + first + 1, item)} << 16;
    }
}

inline float item_number(uint32_t word, unsigned item, Float16) {
    return number(Float16{static_cast<uint16_t>(word >> 16 * item)});
}
inline float item_number(uint32_t word, unsigned item, Bfloat16) {
    return number(Bfloat16{static_cast<uint16_t>(word >> 16 * item)});
}
inline int item_number(uint32_t word, unsigned item, int8_t) { return static_cast<int8_t>(word >> 8 * item); }

// float32 as float32 rounds, int32 as unsigned numbers wrap around.
inline float sum_of(float sum, float x, float y) { return sum + x * y; }
inline int sum_of(int sum, int x, int y) {
    return static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(x * y));
}

struct Words {
    uint32_t of[32];
};

inline Words of_all_lanes(uint32_t word) {
    Words all;
    cuda_on_host::exchange(~0u, word, false);
    for (unsigned lane = 0; lane < 32; ++lane)
        all.of[lane] = static_cast<uint32_t>(cuda_on_host::received(lane));
    return all;
}

// Sums are in the order of k; a tensor core's order and rounding are its own.
template <class T, class Sum>
void multiply_add(Sum (&sums)[4], const uint32_t (&a)[4], uint32_t b_low, uint32_t b_high) {
    const Words rows[4] = {of_all_lanes(a[0]), of_all_lanes(a[1]), of_all_lanes(a[2]), of_all_lanes(a[3])};
    const Words columns[2] = {of_all_lanes(b_low), of_all_lanes(b_high)};
    const unsigned lane = cuda_on_host::lane();
    for (unsigned i = 0; i < 4; ++i)
        for (unsigned k = 0; k < 32; k += sizeof(T)) {  // bytes
            const unsigned half = k / 16, of_row = k % 16 / 4, item = k % 4 / sizeof(T);
            const uint32_t x = rows[half * 2 + i / 2].of[lane / 4 * 4 + of_row];
            const uint32_t y = columns[half].of[(lane % 4 * 2 + i % 2) * 4 + of_row];
            sums[i] = sum_of(sums[i], item_number(x, item, T{}), item_number(y, item, T{}));
        }
}

}  // namespace kv

#endif  // CUDA_ON_HOST_WARP_MMA_H
