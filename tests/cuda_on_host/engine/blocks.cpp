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

enum class State {
    READY,
    AT_BLOCK_BARRIER,
    AT_SOME_BARRIER,
    AT_CLUSTER_BARRIER,
    AT_WARP_OPERATION,
    AT_CONDITION,
    LEFT
};

struct Thread {
    State state;
    bool is_started = false;  // whether `registers` are those of its fiber
    jmp_buf registers;
    ucontext_t first;
    Knowledge known;
    unsigned mask;  // the lanes that it waits for
    bool orders_memory;
    uint64_t offered, received[WARP];
    unsigned barrier, threads_at_barrier;
    bool (*is_met)(const void* what, unsigned number);
    const void* what;
    unsigned number;
};

Thread threads[MOST_THREADS];  // of the cluster, one block's after the other's
unsigned of_block, all;        // how many threads a block has, and the cluster
uint32_t cluster, cluster_size;
uint32_t times[MOST_WARPS];
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
        look_at_who_leaves();
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
    const unsigned number = number_of(&thread), in_block = number % of_block;
    const unsigned block = cluster * cluster_size + number / of_block;
    running = &thread;
    threadIdx = {in_block % blockDim.x, in_block / blockDim.x % blockDim.y,
                 in_block / blockDim.x / blockDim.y};
    blockIdx = {block % gridDim.x, block / gridDim.x % gridDim.y, block / gridDim.x / gridDim.y};
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

unsigned warp_of(unsigned number) {
    return number / of_block * ((of_block + WARP - 1) / WARP) + number % of_block / WARP;
}
unsigned lane_of(unsigned number) { return number % of_block % WARP; }

// The lanes that the warp of a thread has.
unsigned lanes_of_warp(unsigned number) {
    const unsigned left = of_block - number % of_block / WARP * WARP;
    return left >= WARP ? ~0u : (1u << left) - 1;
}

// Lets threads that have waited for each other go on. `orders` memory: each knows from then on what any of them knew,
// and what their warps, all lanes of which are here, have done.
void meet(const std::vector<Thread*>& together, bool orders) {
    if (orders) {
        Knowledge known = {};
        bool is_here[MOST_WARPS] = {};
        for (const Thread* thread : together) {
            known.add(thread->known);
            is_here[warp_of(number_of(thread))] = true;
        }
        for (unsigned i = 0; i < MOST_WARPS; ++i)
            if (is_here[i]) known.of[i] = ++times[i];
        for (Thread* thread : together) thread->known = known;
    }
    for (Thread* thread : together) thread->state = State::READY;
}

// Lets the lanes that `thread` waits for go on, if all of them are here; returns whether they do.
bool complete_warp_operation(Thread& thread) {
    const unsigned number = number_of(&thread), lanes = lanes_of_warp(number), mask = thread.mask & lanes;
    Thread* const first = &thread - lane_of(number);
    std::vector<Thread*> together;
    for (unsigned i = 0; i < WARP; ++i) {
        if (!(mask >> i & 1)) continue;
        if (first[i].state != State::AT_WARP_OPERATION || first[i].mask != thread.mask) return false;
        together.push_back(first + i);
    }
    for (Thread* one : together)
        for (unsigned j = 0; j < WARP; ++j) one->received[j] = mask >> j & 1 ? first[j].offered : 0;
    meet(together, mask == lanes && thread.orders_memory);
    return true;
}

unsigned count(State state) {
    unsigned found = 0;
    for (unsigned i = 0; i < all; ++i) found += threads[i].state == state;
    return found;
}

// Lets the threads of a block, or of the cluster, go on that are in a state, if `wanted` of them are.
bool complete_barrier(unsigned first, unsigned end, State state, unsigned wanted, unsigned barrier = 0) {
    std::vector<Thread*> together;
    for (unsigned i = first; i < end; ++i)
        if (threads[i].state == state && (state != State::AT_SOME_BARRIER || threads[i].barrier == barrier))
            together.push_back(threads + i);
    if (together.size() != wanted) return false;
    meet(together, true);
    return true;
}

// Lets threads go on that have waited for each other, or for what has come; returns whether any does.
bool release() {
    bool any = false;
    for (unsigned i = 0; i < all; ++i) {
        Thread& thread = threads[i];
        const unsigned first = i / of_block * of_block;
        if (thread.state == State::AT_WARP_OPERATION) {
            any |= complete_warp_operation(thread);
        } else if (thread.state == State::AT_SOME_BARRIER) {
            any |= complete_barrier(first, first + of_block, State::AT_SOME_BARRIER,
                                    thread.threads_at_barrier, thread.barrier);
        } else if (thread.state == State::AT_CONDITION && thread.is_met(thread.what, thread.number)) {
            thread.state = State::READY;
            any = true;
        }
    }
    if (any) return true;
    for (unsigned first = 0; first < all; first += of_block)
        any |= complete_barrier(first, first + of_block, State::AT_BLOCK_BARRIER, of_block);
    return any || complete_barrier(0, all, State::AT_CLUSTER_BARRIER, all);
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
    const unsigned left = count(State::LEFT), waiting = count(State::AT_BLOCK_BARRIER),
                   lanes = count(State::AT_WARP_OPERATION), others = all - left - waiting - lanes;
    if (left != all)
        fault_of_block(
            "threads wait for others for ever: %u at __syncthreads, %u for lanes of their warp, %u have "
            "left, "
            "%u at other barriers",
            waiting, lanes, left, others);
}

void run_cluster(uint32_t number, size_t dynamic_bytes) {
    cluster = number;
    for (uint32_t& time : times) time = 0;
    begin_cluster_memory(dynamic_bytes);
    begin_cluster_copies();
    begin_cluster_hopper();
    for (unsigned i = 0; i < all; ++i) {
        threads[i].state = State::READY;
        threads[i].known = {};
    }
    do {
        for (const uint32_t i : ordered(all)) {
            if (threads[i].state == State::READY) resume(threads[i]);
            if (has_fault()) return abandon();
        }
        if (order() == Order::RANDOM && random_bits() % 4 == 0) finish_a_copy();
    } while (release() || finish_a_copy());  // copies take as long as they can, or any time
    look_at_the_end();
}

}  // namespace

void run_blocks(const char* name, dim3 grid, dim3 block, unsigned cluster_blocks, size_t shared, Body body,
                const void* context) {
    gridDim = grid;
    blockDim = block;
    cluster_size = cluster_blocks;
    of_block = block.x * block.y * block.z;
    all = of_block * cluster_size;
    kernel_name = name;
    kernel_body = body;
    kernel_context = context;
    begin_launch_memory();
    begin_launch_hopper();
    const uint32_t clusters = grid.x * grid.y * grid.z / cluster_size;
    const std::vector<uint32_t> in_any_order = ordered(clusters);
    for (uint32_t i = 0; i < clusters && !has_fault(); ++i)
        run_cluster(cluster_size > 1 ? i : in_any_order[i], shared);
    if (!has_fault()) end_launch_hopper();
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

unsigned thread() { return number_of(running); }
unsigned warp() { return warp_of(thread()); }
unsigned lane() { return lane_of(thread()); }
unsigned rank() { return thread() / of_block; }
unsigned blocks_of_cluster() { return cluster_size; }
unsigned threads_of_block() { return of_block; }
uint32_t cluster_number() { return cluster; }

Moment now() { return {cluster, thread() + 1, warp(), times[warp()]}; }

Knowledge& knowledge() { return running->known; }

bool is_over(const Moment& past) {
    if (past.cluster != cluster) return is_signalled(past);
    return past.thread == thread() + 1 || past.time < running->known.of[past.source];
}

void require_present(unsigned of_rank) {
    unsigned left = 0;
    for (unsigned i = 0; i < of_block; ++i) left += threads[of_rank * of_block + i].state == State::LEFT;
    if (left == of_block) fault("reaches into block %u of its cluster, which has left", of_rank);
}

void wait_for_block() { suspend(State::AT_BLOCK_BARRIER); }

void wait_for_some(unsigned barrier, unsigned count_of_threads) {
    running->barrier = barrier;
    running->threads_at_barrier = count_of_threads;
    suspend(State::AT_SOME_BARRIER);
}

void wait_for_cluster() { suspend(State::AT_CLUSTER_BARRIER); }

void wait_until(bool (*is_met)(const void* what, unsigned number), const void* what, unsigned number) {
    if (is_met(what, number)) return;
    running->is_met = is_met;
    running->what = what;
    running->number = number;
    suspend(State::AT_CONDITION);
}

void exchange(unsigned mask, uint64_t offered, bool orders_memory) {
    if (!(mask >> lane() & 1)) fault("its lane %u is not among those it names, %#x", lane(), mask);
    running->mask = mask;
    running->offered = offered;
    running->orders_memory = orders_memory;
    suspend(State::AT_WARP_OPERATION);
}

uint64_t received(unsigned from_lane) { return running->received[from_lane]; }

}  // namespace cuda_on_host
