// Status texts, and what the CUDA runtime says about this machine.
// Nothing here runs when the library is loaded: CUDA is first called by the first function that needs it.
#include "kv.h"

#ifdef KV_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

extern "C" const char* kv_status_text(int status) {
    switch (status) {
        case KV_OK:
            return "ok";
        case KV_ERROR_SIZE:
            return "a size is negative";
        case KV_ERROR_POINTER:
            return "a null pointer to an array that is not empty";
        case KV_ERROR_THREADS:
            return "fewer than one thread asked for";
        case KV_ERROR_SPAWN:
            return "the system refused to start a thread";
        case KV_ERROR_MEMORY:
            return "the system refused memory for a work buffer";
        case KV_ERROR_ISA:
            return "KV_ISA names no instruction set that this build has and this CPU runs";
        case KV_ERROR_ALIGN:
            return "the address of an output is no multiple of the size of its elements";
    }
#ifdef KV_WITH_CUDA
    if (status > KV_ERROR_CUDA) return cudaGetErrorString(static_cast<cudaError_t>(status - KV_ERROR_CUDA));
#endif
    return "a status code that this library does not know";
}

extern "C" int kv_has_cuda(void) {
#ifdef KV_WITH_CUDA
    return 1;
#else
    return 0;
#endif
}

extern "C" int kv_cuda_runtime(int* driver, int* runtime, int* devices) {
    *driver = *runtime = *devices = 0;
#ifdef KV_WITH_CUDA
    cudaError_t error = cudaDriverGetVersion(driver);
    if (error == cudaSuccess) error = cudaRuntimeGetVersion(runtime);
    if (error == cudaSuccess) error = cudaGetDeviceCount(devices);
    if (error != cudaSuccess) {
        cudaGetLastError();  // the error is returned here, it must not be found again by the next launch
        return KV_ERROR_CUDA + static_cast<int>(error);
    }
#endif
    return KV_OK;
}
