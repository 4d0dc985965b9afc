// Runs blocks: their threads are fibers that take turns, and where they wait for each other is looked at here.
//
// A fiber is started once by setcontext and then changed by _setjmp and _longjmp, which make no system call
// (swapcontext makes two). It outlives its block: the next block's thread of the same number runs on it.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <utility>
#include <vector>

#include "engine.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_on_host {

namespace {

constexpr size_t STACK_BYTES = 256 * 1024;  // building.py refuses functions that need a quarter of it

enum class State { READY, AT_BLOCK_BARRIER, AT_WARP_OPERATION, LEFT };

struct Thread {
    State state;
    bool is_started = false;  // whether `registers` are those of its fiber
    jmp_buf registers;
    ucontext_t first;
    unsigned mask;  // the lanes that it waits for
    bool orders_memory;
    uint64_t offered, received[WARP];
};

struct Block {
    uint32_t number, barriers;
    unsigned threads;
    uint32_t warp_barriers[MOST_THREADS / WARP];
};

Thread threads[MOST_THREADS];
Block block;
Thread* running = nullptr;
jmp_buf scheduler;
const char* kernel_name;
Body kernel_body;
const void* kernel_context;

unsigned number_of(const Thread* thread) { return static_cast<unsigned>(thread - threads); }

char* stack_of(unsigned number) {
    static char* const stacks = [] {
        void* const memory = mmap(nullptr, MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) abort();
        return static_cast<char*>(memory);
    }();
    return stacks + number * STACK_BYTES;
}

// Gives the processor back to resume(). The fiber goes on here when it is its turn.
void suspend(State state) {
    running->state = state;
    if (_setjmp(running->registers) == 0) _longjmp(scheduler, 1);
}

// A fiber's first function, which never returns: a thread of one block after the other.
void live() {
    for (;;) {
        kernel_body(kernel_context);
        suspend(State::LEFT);
    }
}

void start(Thread& thread) {
    thread.is_started = true;
    getcontext(&thread.first);
    char* const stack = stack_of(number_of(&thread));
    thread.first.uc_stack.ss_sp = stack;
    thread.first.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread.first, live, 0);
    setcontext(&thread.first);
}

void resume(Thread& thread) {
    const unsigned number = number_of(&thread);
    running = &thread;
    threadIdx = {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
    allow_local(stack_of(number), STACK_BYTES);
    if (_setjmp(scheduler) == 0) {
        if (thread.is_started) _longjmp(thread.registers, 1);
        start(thread);
    }
    running = nullptr;
}

// 0 to count - 1 in the order that the caller of the library wants.
std::vector<uint32_t> ordered(uint32_t count) {
    std::vector<uint32_t> numbers(count);
    for (uint32_t i = 0; i < count; ++i) numbers[i] = order() == Order::BACKWARD ? count - 1 - i : i;
    if (order() == Order::RANDOM)  // Fisher and Yates
        for (uint32_t i = count; i > 1; --i) std::swap(numbers[i - 1], numbers[random_bits() % i]);
    return numbers;
}

unsigned lanes_of_warp(unsigned warp) {
    const unsigned count = block.threads - warp * WARP;
    return count >= WARP ? ~0u : (1u << count) - 1;
}

// Lets the lanes that `thread` waits for go on, if all of them are here; returns whether they do.
bool complete_warp_operation(Thread& thread) {
    const unsigned warp = number_of(&thread) / WARP, lanes = lanes_of_warp(warp);
    Thread* const first = threads + warp * WARP;
    for (unsigned i = 0; i < WARP; ++i)
        if ((thread.mask & lanes) >> i & 1 &&
            (first[i].state != State::AT_WARP_OPERATION || first[i].mask != thread.mask))
            return false;
    const unsigned mask = thread.mask & lanes;
    if (mask == lanes && thread.orders_memory) ++block.warp_barriers[warp];
    for (unsigned i = 0; i < WARP; ++i) {
        if (!(mask >> i & 1)) continue;
        for (unsigned j = 0; j < WARP; ++j) first[i].received[j] = mask >> j & 1 ? first[j].offered : 0;
        first[i].state = State::READY;
    }
    return true;
}

unsigned count(State state) {
    unsigned found = 0;
    for (unsigned i = 0; i < block.threads; ++i) found += threads[i].state == state;
    return found;
}

// Lets threads go on that have waited for each other; returns whether any does.
bool release() {
    bool any = false;
    for (unsigned i = 0; i < block.threads; ++i)
        if (threads[i].state == State::AT_WARP_OPERATION) any |= complete_warp_operation(threads[i]);
    if (any || count(State::AT_BLOCK_BARRIER) < block.threads) return any;
    ++block.barriers;
    for (unsigned i = 0; i < block.threads; ++i) threads[i].state = State::READY;
    return true;
}

// A kernel that ended with a fault leaves fibers behind in the middle of it: they are not gone on with.
void abandon() {
    for (Thread& thread : threads) thread.is_started = false;
}

// Keeps a text, with where it happened before it, for the caller of the library.
void report(const char* where, const char* format, va_list arguments) {
    char text[1024];
    const int length = snprintf(text, sizeof text, "%s, block (%u, %u, %u)%s: ", kernel_name, blockIdx.x,
                                blockIdx.y, blockIdx.z, where);
    vsnprintf(text + length, sizeof text - static_cast<size_t>(length), format, arguments);
    set_fault(text);
}

__attribute__((format(printf, 1, 2))) void fault_of_block(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report("", format, arguments);
    va_end(arguments);
    abandon();
}

void look_at_the_end() {
    const unsigned left = count(State::LEFT), waiting = count(State::AT_BLOCK_BARRIER);
    if (left != block.threads)
        fault_of_block(
            "threads wait for others for ever: %u at __syncthreads, %u for lanes of their warp, %u have left",
            waiting, block.threads - left - waiting, left);
}

void run_block(uint32_t number, size_t dynamic_bytes) {
    block.number = number;
    block.barriers = 0;
    for (uint32_t& warp : block.warp_barriers) warp = 0;
    blockIdx = {number % gridDim.x, number / gridDim.x % gridDim.y, number / gridDim.x / gridDim.y};
    begin_block_memory(dynamic_bytes);
    begin_block_copies();
    for (unsigned i = 0; i < block.threads; ++i) threads[i].state = State::READY;
    do {
        for (const uint32_t i : ordered(block.threads)) {
            if (threads[i].state == State::READY) resume(threads[i]);
            if (has_fault()) return abandon();
        }
    } while (release());
    look_at_the_end();
}

}  // namespace

void run_blocks(const char* name, dim3 grid, dim3 threads_of_block, size_t shared, Body body,
                const void* context) {
    gridDim = grid;
    blockDim = threads_of_block;
    block.threads = blockDim.x * blockDim.y * blockDim.z;
    kernel_name = name;
    kernel_body = body;
    kernel_context = context;
    begin_launch_memory();
    for (const uint32_t number : ordered(grid.x * grid.y * grid.z)) {
        run_block(number, shared);
        if (has_fault()) return;
    }
}

void fault(const char* format, ...) {
    char where[64];
    snprintf(where, sizeof where, ", thread (%u, %u, %u)", threadIdx.x, threadIdx.y, threadIdx.z);
    va_list arguments;
    va_start(arguments, format);
    report(where, format, arguments);
    va_end(arguments);
    _longjmp(scheduler, 1);
}

bool is_running() { return running != nullptr; }

Moment now() {
    const unsigned number = number_of(running);
    return {block.number, number + 1, block.barriers, block.warp_barriers[number / WARP]};
}

unsigned lane() { return number_of(running) % WARP; }

void wait_for_block() { suspend(State::AT_BLOCK_BARRIER); }

void exchange(unsigned mask, uint64_t offered, bool orders_memory) {
    if (!(mask >> lane() & 1)) fault("its lane %u is not among those it names, %#x", lane(), mask);
    running->mask = mask;
    running->offered = offered;
    running->orders_memory = orders_memory;
    suspend(State::AT_WARP_OPERATION);
}

uint64_t received(unsigned from_lane) { return running->received[from_lane]; }

}  // namespace cuda_on_host
