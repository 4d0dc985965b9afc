// Stands in for kernels/matmul/copy_async.h, which is instructions of PTX: the same function.
#ifndef CUDA_ON_HOST_COPY_ASYNC_H
#define CUDA_ON_HOST_COPY_ASYNC_H

#include "cuda_pipeline.h"

namespace kv {

template <int BYTES>
void copy_or_zero(void* to, const void* from, bool inside) {
    cuda_on_host::copy_later(to, from, BYTES, inside ? 0 : BYTES);
}

}  // namespace kv

#endif  // CUDA_ON_HOST_COPY_ASYNC_H
