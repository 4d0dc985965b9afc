// The few functions of CUDA's runtime that launchers call, for devices that do not exist; and what calling.py
// asks and sets.
#include <dlfcn.h>
#include <stdio.h>

#include <string>
#include <utility>
#include <vector>

#include "../include/cuda.h"

namespace cuda_on_host {

namespace {

Order wanted_order = Order::FORWARD;
uint64_t random_state = 1;
int processors = 4, capability = 8, devices = 2, device = 0;
cudaError_t last_error = cudaSuccess;
std::string fault_text, launches;
bool has_streamed;
int allocations = 0, frees = 0;
bool captures = false;  // whether a graph is captured on all streams

struct Asked {
    const void* kernel;
    size_t bytes;
};
std::vector<Asked> asked_shared;  // dynamic shared memory; the last of a kernel holds, for the process's life

// A launch on another stream than the default one, where launches are put off: until its stream is waited for.
struct PutOff {
    std::string name;
    dim3 grid, block;
    unsigned cluster;
    size_t shared;
    cudaStream_t stream;
    Body body;
    std::vector<char> context;
};
bool puts_off = false;
std::vector<PutOff> waiting;

cudaError_t note(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

std::string name_of(const void* kernel) {
    Dl_info found;
    return dladdr(kernel, &found) && found.dli_sname ? found.dli_sname : "a kernel without a name";
}

// The limits that CUDA's programming guide states for every device of compute capability 5.0 or more.
cudaError_t refusal(const void* kernel, dim3 grid, dim3 block, unsigned cluster, size_t shared) {
    const bool is_empty = !grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z;
    const bool is_large = grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || block.x > 1024 ||
                          block.y > 1024 || block.z > 64 || block.x * block.y * block.z > MOST_THREADS;
    const bool is_torn = cluster == 0 || cluster > MOST_BLOCKS || grid.x % cluster != 0 ||
                         block.x * block.y * block.z * cluster > MOST_THREADS ||
                         (cluster > 1 && capability < 9);
    if (is_empty || is_large || is_torn) return cudaErrorInvalidConfiguration;
    size_t allowed = USUAL_SHARED_BYTES;
    for (const Asked& asked : asked_shared)
        if (asked.kernel == kernel) allowed = asked.bytes;
    return shared > allowed ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

Order order() { return wanted_order; }

// xorshift64* (Vigna, An experimental exploration of Marsaglia's xorshift generators, 2016).
uint64_t random_bits() {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * 0x2545f4914f6cdd1dull) >> 32;
}

bool has_fault() { return !fault_text.empty(); }
void set_fault(const char* text) { fault_text = text; }
void note_streaming() { has_streamed = true; }

size_t most_shared_bytes() { return capability < 9 ? MOST_SHARED_BYTES_8 : MOST_SHARED_BYTES; }

void launch(const void* kernel, dim3 grid, dim3 block, unsigned cluster, size_t shared, void* stream,
            Body body, const void* context, size_t context_bytes) {
    if (has_fault() || note(refusal(kernel, grid, block, cluster, shared)) != cudaSuccess) return;
    const std::string name = name_of(kernel);
    char text[160];
    snprintf(text, sizeof text, " %u %u %u %u %u %u %zu %d %zu\n", grid.x, grid.y, grid.z, block.x, block.y,
             block.z, shared, device, reinterpret_cast<size_t>(stream));
    launches += name + text;
    if (puts_off && stream) {
        const char* const bytes = static_cast<const char*>(context);
        waiting.push_back({name,
                           grid,
                           block,
                           cluster,
                           shared,
                           static_cast<cudaStream_t>(stream),
                           body,
                           {bytes, bytes + context_bytes}});
        return;
    }
    allow_arguments(context, context_bytes);
    run_blocks(name.c_str(), grid, block, cluster, shared, body, context);
}

// Runs what was put off on a stream, or on all of them.
void finish(cudaStream_t stream, bool all) {
    std::vector<PutOff> others;
    for (const PutOff& one : waiting) {
        if (!all && one.stream != stream) {
            others.push_back(one);
            continue;
        }
        allow_arguments(one.context.data(), one.context.size());
        run_blocks(one.name.c_str(), one.grid, one.block, one.cluster, one.shared, one.body,
                   one.context.data());
    }
    waiting.swap(others);
}

cudaError_t allow_shared(const void* kernel, int bytes) {
    if (bytes < 0 || static_cast<size_t>(bytes) > most_shared_bytes()) return note(cudaErrorInvalidValue);
    asked_shared.push_back({kernel, static_cast<size_t>(bytes)});
    return cudaSuccess;
}

}  // namespace cuda_on_host

using namespace cuda_on_host;

cudaError_t cudaGetDevice(int* into) {
    *into = device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int wanted) {
    if (wanted < 0 || wanted >= devices) return note(cudaErrorInvalidDevice);
    device = wanted;
    return cudaSuccess;
}

cudaError_t cudaGetLastError() {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int wanted) {
    if (wanted < 0 || wanted >= devices) return note(cudaErrorInvalidDevice);
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount:
            *value = processors;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMajor:
            *value = capability;
            return cudaSuccess;
        case cudaDevAttrL2CacheSize:
            *value = CACHE_BYTES;
            return cudaSuccess;
        case cudaDevAttrMaxThreadsPerMultiProcessor:
            *value = MOST_THREADS_OF_PROCESSOR;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(cuda_on_host::most_shared_bytes());
            return cudaSuccess;
    }
    return note(cudaErrorInvalidValue);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* result) {
    const bool is_known = strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
    *function = is_known ? reinterpret_cast<void*>(cuTensorMapEncodeTiled) : nullptr;
    *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
    ++allocations;
    *memory = allocate(bytes);
    return cudaSuccess;
}

// What is freed is not given out again, as kernels that were put off may use it.
cudaError_t cudaFreeAsync(void*, cudaStream_t) {
    ++frees;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
    memset(memory, value, bytes);
    return cudaSuccess;
}

// A device with another number of processors has other streams.
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
    *id = reinterpret_cast<size_t>(stream) * 4096 + static_cast<size_t>(processors);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
    *status = captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    finish(stream, false);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
    finish(nullptr, true);
    return cudaSuccess;
}

// Whether launches on other streams than the default one are put off until somebody waits for them.
extern "C" void on_host_put_off(int wanted) { puts_off = wanted; }
extern "C" void on_host_finish() { finish(nullptr, true); }

// For calling.py: what holds until it is said anew. Forgets errors and launches, and makes device 0 current.
extern "C" void on_host_begin(int order, uint64_t seed, int processors_) {
    wanted_order = static_cast<Order>(order);
    random_state = 2 * seed + 1;  // never 0, from which xorshift does not go on
    processors = processors_;
    device = 0;
    last_error = cudaSuccess;
    fault_text.clear();
    launches.clear();
    has_streamed = false;
}

extern "C" void on_host_set_capability(int major) { cuda_on_host::capability = major; }

// For tests: whether a graph is captured from now on; and how often memory was allocated and freed since the beginning.
extern "C" void on_host_capture(int wanted) { captures = wanted; }
extern "C" int on_host_allocations() { return allocations; }
extern "C" int on_host_frees() { return frees; }

extern "C" int on_host_device() { return device; }
extern "C" int on_host_streamed() { return has_streamed; }
// What a kernel did wrong; empty: nothing.
extern "C" const char* on_host_fault() { return fault_text.c_str(); }
// A line for each launch: kernel, grid, block, bytes of shared memory, device, stream.
extern "C" const char* on_host_launches() { return launches.c_str(); }
