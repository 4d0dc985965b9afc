// Items of float32, float16 and bfloat16 as numbers that CUDA kernels compute with: read exactly, written
// rounded to the nearest, halves to even. And Words, several items that one access moves.
#ifndef KV_CUDA_HALF_H
#define KV_CUDA_HALF_H

#include <string.h>

#include "kv_cuda_float16.h"

namespace kv {

static __device__ inline float number(float item) { return item; }
static __device__ inline void round_to(float& item, float number) { item = number; }

// The items of a word, in registers.
template <class Item, class Word>
struct Items {
    static constexpr int COUNT = sizeof(Word) / sizeof(Item);
    Item item[COUNT];

    __device__ explicit Items(const Word& word) { memcpy(item, &word, sizeof word); }

    __device__ Word word() const {
        Word word;
        memcpy(&word, item, sizeof word);
        return word;
    }
};

// A byte for each item of a word: what byte_of(number) gives.
template <class Item, class Bytes, class Word, class Function>
static __device__ inline Bytes bytes_of(const Word& word, const Function& byte_of) {
    const Items<Item, Word> x(word);
    static_assert(sizeof(Bytes) == x.COUNT, "a byte for each item");
    signed char each[x.COUNT];
#pragma unroll
    for (int i = 0; i < x.COUNT; ++i) each[i] = byte_of(number(x.item[i]));
    Bytes bytes;
    memcpy(&bytes, each, sizeof bytes);
    return bytes;
}

}  // namespace kv

#endif  // KV_CUDA_HALF_H
