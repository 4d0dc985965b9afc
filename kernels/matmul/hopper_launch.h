// Launches products on Hopper's tensor cores (hopper_tile.h): which tiles, and how TMA sees the matrices.
#ifndef KV_MATMUL_HOPPER_LAUNCH_H
#define KV_MATMUL_HOPPER_LAUNCH_H

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <vector>

#include "hopper.h"
#include "hopper_tile.h"

namespace kv {

// A kernel, how WIDE its tiles are, the rows of the boxes that it loads and stores, and its bytes of shared memory.
template <class Epilogue>
struct HopperKernel {
    void (*kernel)(HopperMaps, HopperWork, HopperWorkspace, Epilogue);
    int wide, box_a, box_b, box_c, shared;
};

template <class T, int WIDE, class Epilogue>
HopperKernel<Epilogue> hopper_kernel(void (*kernel)(HopperMaps, HopperWork, HopperWorkspace, Epilogue)) {
    using Tile = HopperTile<T, WIDE, Epilogue>;
    return {kernel, WIDE, Tile::BOX_A, Tile::BOX_B, Tile::BOX_C, Tile::SHARED};
}

using EncodeMap = decltype(&cuTensorMapEncodeTiled);

// The driver's function. It is asked for, not linked: the library must load where there is no driver.
inline EncodeMap encode_map() {
    static const EncodeMap encode = [] {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                         &result);
#else
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
        return reinterpret_cast<EncodeMap>(function);
    }();
    return encode;
}

// Numbers of a byte or of four are copied as integers.
template <class T>
CUtensorMapDataType map_type() {
    if (sizeof(T) != 2) return sizeof(T) == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_INT32;
    return std::is_same<T, Float16>::value ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                           : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

// A row-major matrix in boxes of `box` rows of 128 bytes. Errors of the driver have the numbers of the runtime's.
template <class T>
cudaError_t map_matrix(CUtensorMap* map, const T* matrix, int64_t rows, int64_t columns, int box) {
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t stride = static_cast<cuuint64_t>(columns) * sizeof(T);
    const cuuint32_t boxes[] = {ROW / sizeof(T), static_cast<cuuint32_t>(box)}, steps[] = {1, 1};
    if (!encode_map()) return cudaErrorNotSupported;
    return static_cast<cudaError_t>(
        encode_map()(map, map_type<T>(), 2, const_cast<T*>(matrix), sizes, &stride, boxes, steps,
                     CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

// Memory for the sums that clusters send each other: 17 MB on an H100. Kernels of a stream use one after the other what
// the stream allocated with its first, which stays. A captured graph allocates and frees its own in each replay, as it
// may run beside all streams.
struct WorkspaceOfLaunch {
    HopperWorkspace workspace = {};
    bool is_of_graph = false;

    cudaError_t allocate(int clusters, cudaStream_t stream) {
        const size_t of_sums = HopperWorkspace::of_sums(clusters),
                     of_sent = HopperWorkspace::of_sent(clusters);
        void* memory = nullptr;
        const cudaError_t error = cudaMallocAsync(&memory, of_sums + of_sent, stream);
        if (error != cudaSuccess) return error;
        workspace = {memory, reinterpret_cast<unsigned*>(static_cast<char*>(memory) + of_sums)};
        return cudaMemsetAsync(workspace.sent, 0, of_sent, stream);
    }

    cudaError_t find(int device, int clusters, cudaStream_t stream) {
        struct Known {
            int device;
            unsigned long long stream;
            HopperWorkspace workspace;
        };
        static std::mutex mutex;
        static std::vector<Known> all;
        unsigned long long id = 0;
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        cudaError_t error = cudaStreamGetId(stream, &id);
        if (error == cudaSuccess) error = cudaStreamIsCapturing(stream, &status);
        if (error != cudaSuccess) return error;
        is_of_graph = status != cudaStreamCaptureStatusNone;
        if (is_of_graph) return allocate(clusters, stream);
        const std::lock_guard<std::mutex> lock(mutex);
        for (const Known& known : all)
            if (known.device == device && known.stream == id) {
                workspace = known.workspace;
                return cudaSuccess;
            }
        error = allocate(clusters, stream);
        if (error == cudaSuccess) all.push_back({device, id, workspace});
        return error;
    }
};

template <class T, class Epilogue>
cudaError_t launch_on_hopper(const HopperKernel<Epilogue>& kernel, const HopperPlan& plan, const T* a,
                             const T* b, typename Product<T>::Item* c, int64_t k, const Epilogue& epilogue,
                             int device, cudaStream_t stream) {
    HopperMaps maps;
    WorkspaceOfLaunch memory;
    const int64_t m = plan.work.m, n = plan.work.n;
    cudaError_t error = map_matrix(&maps.a, a, m, k, kernel.box_a);
    if (error == cudaSuccess) error = map_matrix(&maps.b, b, k, n, kernel.box_b);
    if (error == cudaSuccess) error = map_matrix(&maps.c, c, m, n, kernel.box_c);
    if (error == cudaSuccess && plan.is_shared()) error = memory.find(device, plan.work.clusters, stream);
    if (error == cudaSuccess)
        error =
            cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared);
    if (error != cudaSuccess) return error;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {CLUSTER, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(plan.clusters() * CLUSTER));
    config.blockDim = dim3(HOPPER_THREADS);
    config.dynamicSmemBytes = static_cast<size_t>(kernel.shared);
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    error = cudaLaunchKernelEx(&config, kernel.kernel, maps, plan.work, memory.workspace, epilogue);
    return error == cudaSuccess && memory.is_of_graph ? cudaFreeAsync(memory.workspace.sums, stream) : error;
}

// Launches the kernel that the estimate says is the quickest.
template <class T, class Epilogue, size_t COUNT>
int launch_best(const HopperKernel<Epilogue> (&kernels)[COUNT], const T* a, const T* b,
                typename Product<T>::Item* c, int64_t m, int64_t n, int64_t k, const Epilogue& epilogue,
                int device, void* stream) {
    cudaError_t error = cudaSuccess;
    const int status = on_processors(device, [&](int processors) {
        const HopperKernel<Epilogue>* best = kernels;
        HopperPlan plan = hopper_plan<T>(best->wide, m, n, k, processors);
        for (const HopperKernel<Epilogue>& kernel : kernels) {
            const HopperPlan other = hopper_plan<T>(kernel.wide, m, n, k, processors);
            if (other.clocks >= plan.clocks) continue;
            best = &kernel;
            plan = other;
        }
        error =
            launch_on_hopper(*best, plan, a, b, c, k, epilogue, device, static_cast<cudaStream_t>(stream));
    });
    return status == KV_OK ? cuda_status(error) : status;
}

}  // namespace kv

#define KV_HOPPER_KERNEL(NAME, T, WIDE, EPILOGUE)                                \
    extern "C" __global__ void __launch_bounds__(kv::HOPPER_THREADS, 1)          \
        NAME(const __grid_constant__ kv::HopperMaps maps, kv::HopperWork work,   \
             kv::HopperWorkspace workspace, EPILOGUE epilogue) {                 \
        kv::HopperTile<T, WIDE, EPILOGUE>::run(maps, work, workspace, epilogue); \
    }

// The kernels of a dtype and an epilogue, NAME_hopper_<wide>, and what launches them.
#define KV_HOPPER_KERNELS(NAME, T, EPILOGUE)                                                          \
    KV_HOPPER_KERNEL(NAME##_hopper_256, T, 256, EPILOGUE)                                             \
    KV_HOPPER_KERNEL(NAME##_hopper_192, T, 192, EPILOGUE)                                             \
    KV_HOPPER_KERNEL(NAME##_hopper_128, T, 128, EPILOGUE)                                             \
    template <>                                                                                       \
    int kv::multiply_on_hopper(const T* a, const T* b, kv::Product<T>::Item* c, int64_t m, int64_t n, \
                               int64_t k, const EPILOGUE& epilogue, int device, void* stream) {       \
        const kv::HopperKernel<EPILOGUE> kernels[] = {                                                \
            kv::hopper_kernel<T, 256>(NAME##_hopper_256),                                             \
            kv::hopper_kernel<T, 192>(NAME##_hopper_192),                                             \
            kv::hopper_kernel<T, 128>(NAME##_hopper_128),                                             \
        };                                                                                            \
        return kv::launch_best(kernels, a, b, c, m, n, k, epilogue, device, stream);                  \
    }

#endif  // KV_MATMUL_HOPPER_LAUNCH_H
