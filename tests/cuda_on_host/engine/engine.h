// CUDA's execution model on one CPU thread. The headers of ../include are written with these functions.
//
// A block's threads are fibers. Each runs until it waits (for its block, or for lanes of its warp) or returns;
// blocks run one after the other. Whatever goes wrong in a kernel ends its launch with a text (fault()).
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
constexpr unsigned MOST_THREADS = 1024;               // of a block
constexpr size_t USUAL_SHARED_BYTES = 48 * 1024;      // of a block, without being asked for
constexpr size_t MOST_SHARED_BYTES = 163 * 1024;      // of a block, asked for: compute capability 8.0
constexpr unsigned MOST_THREADS_OF_PROCESSOR = 2048;  // compute capabilities 8.0 and 9.0

// Ends the launch: the kernel did what it must not do.
[[noreturn]] void fault(const char* format, ...) __attribute__((format(printf, 1, 2)));

// How far the running thread has come; what tells whether two accesses are ordered.
struct Moment {
    uint32_t block, thread;  // thread: its number in the block, plus one; 0: nobody
    uint32_t barriers, warp_barriers;
};
bool is_running();  // whether a thread of a kernel runs (and not the host's code)
Moment now();
unsigned lane();

// __syncthreads.
void wait_for_block();

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
// Notes an access of a lane for traffic.py, if its caller wants that. `site` is where in the kernel it is made: lanes of
// a warp that are at one site for the n-th time make one request together.
void note_access(const void* site, const void* address, size_t bytes, bool writes, int memory);
// The beginning and the end of an asynchronous copy to shared memory: between them nobody may touch it.
void await_copy(const void* to, size_t bytes);
void end_copy(const void* to, size_t bytes);

// memory.cpp and copies.cpp, for blocks.cpp.
void allow_local(const void* begin, size_t bytes);      // the running thread's stack
void allow_arguments(const void* begin, size_t bytes);  // what the launch handed over
void begin_launch_memory();
void begin_block_memory(size_t dynamic_bytes);
void begin_block_copies();

// runtime.cpp, for blocks.cpp: the order that the caller wants.
enum class Order { FORWARD, BACKWARD, RANDOM };
Order order();
uint64_t random_bits();
bool has_fault();
void set_fault(const char* text);

// blocks.cpp, for runtime.cpp: runs all blocks of a grid that the limits allow.
using Body = void (*)(const void* context);
void run_blocks(const char* name, dim3 grid, dim3 block, size_t shared, Body body, const void* context);

// What kernel<<<grid, block, shared, stream>>>(arguments) is rewritten to:
// Configuration(grid, block, shared, stream).of(kernel)(arguments).
void launch(const void* kernel, dim3 grid, dim3 block, size_t shared, void* stream, Body body,
            const void* context, size_t context_bytes);

template <class... Parameters>
struct Launch {
    dim3 grid, block;
    size_t shared;
    void* stream;
    void (*kernel)(Parameters...);

    void operator()(Parameters... arguments) const {
        const auto body = [kernel = kernel, arguments...] { kernel(arguments...); };
        using Closure = decltype(body);
        launch(
            reinterpret_cast<const void*>(kernel), grid, block, shared, stream,
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
        return {grid, block, shared, stream, kernel};
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
