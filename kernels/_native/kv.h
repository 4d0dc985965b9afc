// The C ABI of libkernel_velocity.
//
// Every kernel is two functions, each defined in the kernel's own folder:
//
//     int kv_<name>_cpu(pointers..., sizes..., scalars..., int threads);
//     int kv_<name>_cuda(pointers..., sizes..., scalars..., int device, void* stream);
//
// Pointers are to contiguous arrays, sizes are int64_t counts of elements, `stream` is a cudaStream_t.
// They return KV_OK or a status code whose text kv_status_text gives. A CUDA kernel is only enqueued:
// what goes wrong while it runs is reported by a later call, as CUDA does it.
#ifndef KV_H
#define KV_H

#include <stdint.h>

#define KV_API __attribute__((visibility("default")))

enum kv_status {
    KV_OK = 0,
    KV_ERROR_SIZE = 1,     // a size is negative
    KV_ERROR_POINTER = 2,  // a null pointer to an array that is not empty
    KV_ERROR_THREADS = 3,  // fewer than one thread asked for
    KV_ERROR_SPAWN = 4,    // the system refused to start a thread
    KV_ERROR_MEMORY = 5,   // the system refused memory for a work buffer
    KV_ERROR_ISA = 6,      // KV_ISA names no instruction set that this build has and this CPU runs
    KV_ERROR_ALIGN = 7,    // an output whose address is no multiple of the size of its elements
    KV_ERROR_CUDA = 1000   // KV_ERROR_CUDA + e: CUDA runtime error e
};

#ifdef __cplusplus
extern "C" {
#endif

// The text of a status code: never null, valid for the life of the process.
KV_API const char* kv_status_text(int status);

// The instruction set whose code the CPU kernels run: "sse2", "avx2" or "avx512" on x86-64, "baseline" in a
// build with one only. The best that this CPU has, or what the environment variable KV_ISA names when it is
// first asked for (empty: not set). Null where that is none of kv_isas(): then every CPU kernel returns
// KV_ERROR_ISA.
KV_API const char* kv_isa(void);

// Those that this build has and this CPU runs, slowest first, with a space between them; never null.
KV_API const char* kv_isas(void);

// For tests and experiments: run that one from now on; null: what kv_isa() was at first. Returns KV_OK, or
// KV_ERROR_ISA, and nothing has changed. Calls that are running stay with what they began with.
KV_API int kv_choose_isa(const char* name);

// For tests and experiments: CPU kernels write around the caches in calls that read and write more than so many
// bytes in all. Negative: more than the last cache holds, as it is at first.
KV_API void kv_stream_above(int64_t bytes);

// For measuring memory, no kernels: a = b, and a = b + 1.5 c, written around the caches at any size. `a` is at a
// multiple of 4 bytes, else KV_ERROR_ALIGN; it may be b or c, but not lie partly on them.
KV_API int kv_stream_copy_cpu(const float* b, float* a, int64_t n, int threads);
KV_API int kv_stream_triad_cpu(const float* b, const float* c, float* a, int64_t n, int threads);

// For measuring arithmetic, no kernels: x = b - a x, `steps` times for each of n numbers, in registers.
KV_API int kv_multiply_adds_cpu(float* items, int64_t n, float a, float b, int64_t steps, int threads);
KV_API int kv_multiply_adds_float64_cpu(double* items, int64_t n, double a, double b, int64_t steps,
                                        int threads);

// 1 when the library holds CUDA kernels, else 0.
KV_API int kv_has_cuda(void);

// What the CUDA runtime sees. `driver` and `runtime` are versions as 1000 * major + 10 * minor (0: no
// driver); `devices` is the number of devices. Returns KV_OK or why there is no device. Initialises CUDA, so
// a process that has called it must not fork children that use CUDA. Without CUDA kernels: KV_OK and zeros.
KV_API int kv_cuda_runtime(int* driver, int* runtime, int* devices);

#ifdef __cplusplus
}
#endif

#endif  // KV_H
