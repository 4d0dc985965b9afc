// Stands in for the CUDA toolkit's header of this name: asynchronous copies to shared memory (cp.async).
#ifndef CUDA_ON_HOST_CUDA_PIPELINE_H
#define CUDA_ON_HOST_CUDA_PIPELINE_H

#include "cuda_runtime.h"

// `zeros`: of the bytes, how many at the end are zeros instead of being read.
static inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
    cuda_on_host::copy_later(to, from, bytes, zeros);
}
static inline void __pipeline_commit() { cuda_on_host::commit_copies(); }
static inline void __pipeline_wait_prior(size_t groups_left) {
    cuda_on_host::wait_for_copies(static_cast<unsigned>(groups_left));
}

#endif  // CUDA_ON_HOST_CUDA_PIPELINE_H
