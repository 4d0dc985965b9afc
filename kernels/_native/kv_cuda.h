// What every CUDA launcher needs: the tensor's device made current for the launch, and errors as status
// codes.
#ifndef KV_CUDA_H
#define KV_CUDA_H

#include <cuda_runtime.h>
#include <limits.h>

#include "kv.h"

namespace kv {

inline int cuda_status(cudaError_t error) {
    return error == cudaSuccess ? KV_OK : KV_ERROR_CUDA + static_cast<int>(error);
}

// The status of a call that failed, forgotten by the runtime: else the next launch, which may be fine, finds it again.
inline int failed(cudaError_t error) {
    cudaGetLastError();
    return cuda_status(error);
}

// Runs launch() with `device` current and gives the caller back the device that was current before.
// launch() enqueues kernels; a launch that CUDA refused is the status returned.
template <class Launch>
int on_device(int device, const Launch& launch) {
    int previous = 0;
    cudaError_t error = cudaGetDevice(&previous);
    if (error != cudaSuccess) return failed(error);
    if (previous != device) error = cudaSetDevice(device);
    if (error != cudaSuccess) return failed(error);
    launch();
    error = cudaGetLastError();
    if (previous != device) {
        const cudaError_t restored = cudaSetDevice(previous);
        if (restored != cudaSuccess) return failed(error == cudaSuccess ? restored : error);
    }
    return cuda_status(error);
}

// on_device() for a launch(processors) whose grid depends on how many multiprocessors the device has.
template <class Launch>
int on_processors(int device, const Launch& launch) {
    int processors = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) return failed(error);
    return on_device(device, [&] { launch(processors); });
}

// Whether an output of so many bytes is gone from the second-level cache before the next kernel can read it. It is then
// stored as the first to leave again, so that what else is there stays.
inline bool outgrows_cache(int64_t bytes, int device) {
    int cache = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device);
    return error == cudaSuccess && bytes > cache;  // an error comes again, where it is looked at
}

// Note: `*to = word` was tried. nvcc 13.0 makes four stores of 4 bytes of some of 16.
template <class Word>
__device__ void store(Word* to, const Word& word, bool outgrows) {
    if (outgrows)
        __stcs(to, word);
    else
        __stwb(to, word);
}

inline bool is_aligned(const void* pointer, uintptr_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// Blocks of `threads` threads for n elements, few enough for the grid's limit: kernels loop over the rest. For kernels
// that `kv new` begins.
inline unsigned grid_for(int64_t n, int threads) {
    const int64_t blocks = (n + threads - 1) / threads;
    const int64_t limit = int64_t{1} << 20;
    return static_cast<unsigned>(blocks < limit ? blocks : limit);
}

// Blocks for n elements, in parts of `part` elements each; 0, which CUDA refuses to launch, for more than a grid can
// have.
inline unsigned blocks_for(int64_t n, int64_t part) {
    const int64_t parts = (n + part - 1) / part;
    return parts <= INT_MAX ? static_cast<unsigned>(parts) : 0;
}

// Blocks for n elements, in parts of `part` elements each, of which the device runs `resident` at once: no
// more than that, and each with as many parts as any other or one less. So all run from the first to the
// last part, and none begins when the others end.
inline unsigned grid_of_one_wave(int64_t n, int64_t part, int64_t resident) {
    const int64_t parts = (n + part - 1) / part, rounds = (parts + resident - 1) / resident;
    return static_cast<unsigned>((parts + rounds - 1) / rounds);
}

}  // namespace kv

#endif  // KV_CUDA_H
