// CUDA's execution model on one CPU thread. The headers of ../include are written with these functions.
//
// A block's threads are fibers. Each runs until it waits (for its block, for lanes of its warp, for a barrier in shared
// memory) or returns. The blocks of a cluster run together, clusters one after the other: where they have several
// blocks in the order of their numbers, as a GPU starts them, for they may wait for what earlier ones give (hopper.h,
// give_signal). Whatever goes wrong in a kernel ends its launch with a text (fault()).
#ifndef CUDA_ON_HOST_ENGINE_H
#define CUDA_ON_HOST_ENGINE_H

#include <stddef.h>
#include <stdint.h>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace cuda_on_host {

constexpr unsigned WARP = 32;
constexpr unsigned MOST_THREADS = 1024;               // of a block, and here of a cluster, too
constexpr unsigned MOST_BLOCKS = 8;                   // of a cluster
constexpr unsigned MOST_WARPS = MOST_THREADS / WARP;  // of a cluster
constexpr size_t USUAL_SHARED_BYTES = 48 * 1024;      // of a block, without being asked for
constexpr size_t MOST_SHARED_BYTES = 227 * 1024;      // of a block, asked for: compute capability 9.0
constexpr size_t MOST_SHARED_BYTES_8 = 163 * 1024;    // 8.0
constexpr unsigned MOST_THREADS_OF_PROCESSOR = 2048;  // compute capabilities 8.0 and 9.0
constexpr int CACHE_BYTES = 16 * 1024;  // of the second-level cache: few, so that outputs are soon larger

// Ends the launch: the kernel did what it must not do.
[[noreturn]] void fault(const char* format, ...) __attribute__((format(printf, 1, 2)));

// When an access was made, by a thread or by a copy of TMA. Every warp has a time of its own, which its barriers
// advance. A copy belongs to the barrier in shared memory that it arrives at, and its time is that barrier's phase.
struct Moment {
    uint32_t cluster;  // its number
    uint32_t thread;   // its number in the cluster, plus one; or one of these
    uint32_t source;   // the warp, or MOST_WARPS and the number of the barrier
    uint32_t time;     // of the source
};
constexpr uint32_t NOBODY = 0, COPY = ~0u;

// How much a thread, or who waits for a barrier, knows: whatever a source has done before the time here is over and
// seen. (Lamport, Time, clocks, and the ordering of events, 1978, with clocks of warps.)
constexpr unsigned MOST_BARRIERS = 64, MOST_SOURCES = MOST_WARPS + MOST_BARRIERS;
struct Knowledge {
    uint32_t of[MOST_SOURCES];
    void add(const Knowledge& other) {
        for (unsigned i = 0; i < MOST_SOURCES; ++i)
            if (other.of[i] > of[i]) of[i] = other.of[i];
    }
};

bool is_running();  // whether a thread of a kernel runs (and not the host's code)
Moment now();
Knowledge& knowledge();                 // the running thread's
bool is_over(const Moment& past);       // whether the running thread knows that an access is over
bool is_signalled(const Moment& past);  // the same of another cluster's access
unsigned lane();
unsigned warp();    // in the cluster
unsigned thread();  // in the cluster
unsigned rank();    // of the block in the cluster
unsigned blocks_of_cluster();
unsigned threads_of_block();
uint32_t cluster_number();
void require_present(unsigned rank);  // faults where all threads of that block have left

// __syncthreads.
void wait_for_block();
// bar.sync of `threads` threads of a block; and barrier.cluster.
void wait_for_some(unsigned barrier, unsigned threads);
void wait_for_cluster();
// Waits until is_met(what, number).
void wait_until(bool (*is_met)(const void* what, unsigned number), const void* what, unsigned number);

// Waits until all lanes of `mask` offer a value; received(l) is then what lane l did. A barrier of memory, as
// __syncwarp is one, only if `orders_memory`.
void exchange(unsigned mask, uint64_t offered, bool orders_memory);
uint64_t received(unsigned from_lane);

// The block's copy of a variable in shared memory, known by `key`; and its dynamic shared memory.
void* shared_variable(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared();

// cp.async: a copy that is done no sooner than its group is waited for.
void copy_later(void* to, const void* from, size_t bytes, size_t zeros);
void commit_copies();
void wait_for_copies(unsigned groups_left);

// Called before each access of a kernel: faults where it is out of bounds, misaligned or races. Returns what is
// accessed: the number of an array, or one of these.
constexpr int SHARED_MEMORY = -1, OTHER_MEMORY = -2;
int check(const void* address, size_t bytes, bool writes, size_t alignment);
// cudaMallocAsync: memory that stays for the process's life; and whether bytes are in such memory.
void* allocate(size_t bytes);
bool is_allocated(const void* address, size_t bytes);
// Notes an access of a lane for traffic.py, if its caller wants that. `site` is where in the kernel it is made: lanes of
// a warp that are at one site for the n-th time make one request together.
void note_access(const void* site, const void* address, size_t bytes, bool writes, int memory);
void note_streaming();  // a store that asks to be the first to leave the caches
// The beginning and the end of an asynchronous copy to shared memory: between them nobody may touch it.
void await_copy(const void* to, size_t bytes);
void end_copy(const void* to, size_t bytes);

// Shared memory as what works beside the threads sees it: by block of the cluster and offset. TMA and products read it
// from begin_read to end_read, when nobody may write to it. What a thread has written they see only after its fence.
// TMA writes it from await_box to end_box.
char* shared_memory_of(unsigned rank);
size_t shared_offset(const void* address);  // in the running thread's block; faults elsewhere
enum class Reader { PRODUCT, STORE };
void begin_read(Reader reader, size_t offset, size_t bytes);
void end_read(Reader reader, size_t offset, size_t bytes);
void fence_shared_memory();
void await_box(unsigned rank, size_t offset, size_t bytes);
void end_box(unsigned rank, size_t offset, size_t bytes, const Moment& moment);

// hopper.cpp, for blocks.cpp and memory.cpp.
void begin_launch_hopper();
void end_launch_hopper();  // faults where a signal is left
void begin_cluster_hopper();
bool finish_a_copy();       // one that is under way, of TMA; false: there is none
void look_at_who_leaves();  // faults where the running thread leaves something under way
void touch_local(const void* address, size_t bytes);  // an access to the running thread's own memory

// memory.cpp and copies.cpp, for blocks.cpp.
void allow_local(const void* begin, size_t bytes);      // the running thread's stack
void allow_arguments(const void* begin, size_t bytes);  // what the launch handed over
void begin_launch_memory();
void begin_cluster_memory(size_t dynamic_bytes);
void begin_cluster_copies();

// runtime.cpp, for blocks.cpp: the order that the caller wants.
enum class Order { FORWARD, BACKWARD, RANDOM };
Order order();
uint64_t random_bits();
bool has_fault();
void set_fault(const char* text);

// blocks.cpp, for runtime.cpp: runs all blocks of a grid that the limits allow.
using Body = void (*)(const void* context);
void run_blocks(const char* name, dim3 grid, dim3 block, unsigned cluster, size_t shared, Body body,
                const void* context);

// What kernel<<<grid, block, shared, stream>>>(arguments) is rewritten to:
// Configuration(grid, block, shared, stream).of(kernel)(arguments).
void launch(const void* kernel, dim3 grid, dim3 block, unsigned cluster, size_t shared, void* stream,
            Body body, const void* context, size_t context_bytes);

template <class... Parameters>
struct Launch {
    dim3 grid, block;
    unsigned cluster;  // blocks that run together
    size_t shared;
    void* stream;
    void (*kernel)(Parameters...);

    void operator()(Parameters... arguments) const {
        const auto body = [kernel = kernel, arguments...] { kernel(arguments...); };
        using Closure = decltype(body);
        launch(
            reinterpret_cast<const void*>(kernel), grid, block, cluster, shared, stream,
            [](const void* context) { (*static_cast<const Closure*>(context))(); }, &body, sizeof body);
    }
};

struct Configuration {
    dim3 grid, block;
    size_t shared;
    void* stream;

    Configuration(dim3 grid_, dim3 block_, size_t shared_ = 0, void* stream_ = nullptr)
        : grid(grid_), block(block_), shared(shared_), stream(stream_) {}

    template <class... Parameters>
    Launch<Parameters...> of(void (*kernel)(Parameters...)) const {
        return {grid, block, 1, shared, stream, kernel};
    }
};

// What `__shared__ Type name;` is rewritten to: Type& name = shared<Type, alignment>([] {}). The closure's type
// is another one for each declaration, and for each instance of a template around it.
template <class Type, size_t ALIGNMENT, class Declaration>
Type& shared(Declaration) {
    static const char key = 0;
    constexpr size_t alignment = ALIGNMENT > alignof(Type) ? ALIGNMENT : alignof(Type);
    return *static_cast<Type*>(shared_variable(&key, sizeof(Type), alignment));
}

}  // namespace cuda_on_host

#endif  // CUDA_ON_HOST_ENGINE_H
