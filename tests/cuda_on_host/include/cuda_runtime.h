// Stands in for the CUDA toolkit's header of this name: what our kernels use of it, for the engine.
#ifndef CUDA_ON_HOST_CUDA_RUNTIME_H
#define CUDA_ON_HOST_CUDA_RUNTIME_H

#include <math.h>
#include <string.h>

#include "../engine/engine.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

#define CUDART_VERSION 13000

using cudaStream_t = struct CUstream_st*;

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotSupported = 801,
};

enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess = 0,
    cudaDriverEntryPointSymbolNotFound = 1
};
constexpr unsigned long long cudaEnableDefault = 0;
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result);

cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);

namespace cuda_on_host {
cudaError_t allow_shared(const void* kernel, int bytes);
}

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int bytes) {
    return cuda_on_host::allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}

enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
union cudaLaunchAttributeValue {
    struct {
        unsigned x, y, z;
    } clusterDim;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Arguments&... arguments) {
    const cuda_on_host::Configuration configuration(config->gridDim, config->blockDim,
                                                    config->dynamicSmemBytes, config->stream);
    auto launch = configuration.of(kernel);
    for (unsigned i = 0; i < config->numAttrs; ++i) launch.cluster = config->attrs[i].val.clusterDim.x;
    launch(arguments...);
    return cudaPeekAtLastError();
}

// Types of several numbers, aligned as CUDA aligns them: an access to one is a single access of its size.
#define CUDA_ON_HOST_TYPES(item, name, align2, align4)                      \
    struct __attribute__((aligned(align2))) name##2 { item x, y; };         \
    struct __attribute__((aligned(align4))) name##4 { item x, y, z, w; };   \
    static inline name##2 make_##name##2(item x, item y) { return {x, y}; } \
    static inline name##4 make_##name##4(item x, item y, item z, item w) { return {x, y, z, w}; }
CUDA_ON_HOST_TYPES(signed char, char, 2, 4)
CUDA_ON_HOST_TYPES(unsigned char, uchar, 2, 4)
CUDA_ON_HOST_TYPES(short, short, 4, 8)
CUDA_ON_HOST_TYPES(unsigned short, ushort, 4, 8)
CUDA_ON_HOST_TYPES(int, int, 8, 16)
CUDA_ON_HOST_TYPES(unsigned, uint, 8, 16)
CUDA_ON_HOST_TYPES(float, float, 8, 16)
#undef CUDA_ON_HOST_TYPES

using std::isnan;

template <class Number>
Number min(Number x, Number y) {
    return y < x ? y : x;
}
template <class Number>
Number max(Number x, Number y) {
    return x < y ? y : x;
}

// IEEE arithmetic that no flag may change. The kernels are compiled with -ffp-contract=off.
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }

namespace cuda_on_host {

template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same number of bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

}  // namespace cuda_on_host

static inline unsigned __float_as_uint(float x) { return cuda_on_host::bits_as<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return cuda_on_host::bits_as<float>(x); }
static inline int __float_as_int(float x) { return cuda_on_host::bits_as<int>(x); }
static inline float __int_as_float(int x) { return cuda_on_host::bits_as<float>(x); }

// Of the eight bytes of x and y, x's first, the four that the digits of `choice` name, the last digit's first.
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned choice) {
    const uint64_t both = uint64_t{y} << 32 | x;
    unsigned bytes = 0;
    for (unsigned i = 0; i < 4; ++i)
        bytes |= static_cast<unsigned>(both >> (choice >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return bytes;
}

// Four products of signed bytes, and c. CUDA's int wraps around.
static inline int __dp4a(int a, int b, int c) {
    unsigned sum = static_cast<unsigned>(c);
    for (int byte = 0; byte < 4; ++byte)
        sum += static_cast<unsigned>(static_cast<int8_t>(a >> 8 * byte) * static_cast<int8_t>(b >> 8 * byte));
    return static_cast<int>(sum);
}

// Hints for caches that the engine does not have: plain accesses.
template <class Item>
Item __ldg(const Item* from) {
    return *from;
}
template <class Item>
Item __ldcs(const Item* from) {
    return *from;
}
template <class Item>
Item __ldcg(const Item* from) {
    return *from;
}
template <class Item>
void __stcs(Item* to, Item value) {
    cuda_on_host::note_streaming();
    *to = value;
}
template <class Item>
void __stwb(Item* to, Item value) {
    *to = value;
}
template <class Item>
void __stcg(Item* to, Item value) {
    *to = value;
}

static inline void __syncthreads() { cuda_on_host::wait_for_block(); }
static inline void __syncwarp(unsigned mask = ~0u) { cuda_on_host::exchange(mask, 0, true); }

namespace cuda_on_host {

// What `from_lane` holds; its own where that lane lies beyond the group of `width` lanes.
template <class Item>
Item shuffle(unsigned mask, Item value, unsigned from_lane, bool is_inside) {
    static_assert(sizeof(Item) <= 8, "shuffles move up to 8 bytes");
    uint64_t offered = 0;
    memcpy(&offered, &value, sizeof value);
    exchange(mask, offered, false);
    if (!is_inside) return value;
    if (!(mask >> from_lane & 1))
        fault("takes a value from lane %u, which %#x does not name", from_lane, mask);
    offered = received(from_lane);
    memcpy(&value, &offered, sizeof value);
    return value;
}

}  // namespace cuda_on_host

template <class Item>
Item __shfl_sync(unsigned mask, Item value, int lane, int width = 32) {
    const unsigned first = cuda_on_host::lane() & ~static_cast<unsigned>(width - 1);
    return cuda_on_host::shuffle(
        mask, value, first + (static_cast<unsigned>(lane) & static_cast<unsigned>(width - 1)), true);
}
template <class Item>
Item __shfl_xor_sync(unsigned mask, Item value, int bits, int width = 32) {
    const unsigned own = cuda_on_host::lane(), from = own ^ static_cast<unsigned>(bits);
    const unsigned next_group = (own & ~static_cast<unsigned>(width - 1)) + static_cast<unsigned>(width);
    return cuda_on_host::shuffle(mask, value, from, from < next_group);
}
template <class Item>
Item __shfl_down_sync(unsigned mask, Item value, unsigned by, int width = 32) {
    const unsigned own = cuda_on_host::lane();
    const unsigned next_group = (own & ~static_cast<unsigned>(width - 1)) + static_cast<unsigned>(width);
    return cuda_on_host::shuffle(mask, value, own + by, own + by < next_group);
}

static inline unsigned __ballot_sync(unsigned mask, int holds) {
    cuda_on_host::exchange(mask, holds != 0, false);
    unsigned lanes = 0;
    for (unsigned lane = 0; lane < cuda_on_host::WARP; ++lane)
        lanes |= static_cast<unsigned>(cuda_on_host::received(lane)) << lane;
    return lanes;
}
static inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    cuda_on_host::exchange(mask, value, false);
    for (unsigned lane = 0; lane < cuda_on_host::WARP; ++lane)
        if (mask >> lane & 1) value = max(value, static_cast<unsigned>(cuda_on_host::received(lane)));
    return value;
}
static inline int __any_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) != 0; }
static inline int __all_sync(unsigned mask, int holds) { return __ballot_sync(mask, !holds) == 0; }

#endif  // CUDA_ON_HOST_CUDA_RUNTIME_H
