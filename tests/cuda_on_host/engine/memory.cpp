// What a kernel may touch, and who has touched it: bounds, alignment and data races of every access.
//
// The compiler reports the accesses. Of `-fsanitize=thread` only its instrumentation is used: the functions
// that it calls (__tsan_read4 ...) are defined here, and look an address up in what the running thread may
// touch: its stack, the launch's arguments, constants of the library, its block's shared memory, and the arrays
// that the caller of the library named.
#include <stdio.h>
#include <string.h>

#include <vector>

#include "engine.h"

// Where this library begins and ends in memory, by the linker.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[], _end[];

namespace cuda_on_host {

namespace {

constexpr unsigned char POISON = 0xff;  // makes NaN of every type of floating-point number

struct Span {
    const char* begin = nullptr;
    const char* end = nullptr;
    bool has(const char* address, size_t bytes) const { return address >= begin && address + bytes <= end; }
};

// Who accessed a byte: the last writer, and who has read it since.
struct History {
    Moment written, read;
    bool is_awaited;  // an asynchronous copy to it is under way
    // Besides the last reader: lanes of its warp since that warp's last barrier, other warps since the block's last
    // barrier, other blocks.
    bool lanes_read, warps_read, blocks_read;
};

struct Array {
    char name[32];
    Span span;
    bool is_writable;
    std::vector<History> bytes;  // of what is written
};

struct Variable {
    const void* key;
    Span span;
};

Span local, arguments;
std::vector<Array> arrays;
Array shared_memory;
std::vector<Variable> variables;  // of the block, in shared memory; the first is the dynamic part
alignas(256) char storage[MOST_SHARED_BYTES + 4096];  // and gaps between them

unsigned warp_of(const Moment& moment) { return (moment.thread - 1) / WARP; }

// Whether a write at `before` is certainly over, and seen, at `moment`.
bool is_ordered(const Moment& before, const Moment& moment) {
    if (before.block != moment.block) return false;
    if (before.thread == moment.thread || before.barriers != moment.barriers) return true;
    return warp_of(before) == warp_of(moment) && before.warp_barriers != moment.warp_barriers;
}

// Whether a read may still be under way at `moment`, when the byte is written.
bool may_be_read(const History& byte, const Moment& moment) {
    const Moment& read = byte.read;
    if (read.thread == 0) return false;
    if (byte.blocks_read || read.block != moment.block) return true;
    if (read.barriers != moment.barriers) return false;
    if (byte.warps_read || warp_of(read) != warp_of(moment)) return true;
    return read.warp_barriers == moment.warp_barriers && (byte.lanes_read || read.thread != moment.thread);
}

void note_read(History& byte, const Moment& moment) {
    const Moment& before = byte.read;
    if (before.thread != 0 && before.block != moment.block) byte.blocks_read = true;
    if (before.block != moment.block || before.barriers != moment.barriers)
        byte.warps_read = byte.lanes_read = false;
    else if (before.thread != 0 && warp_of(before) != warp_of(moment))
        byte.warps_read = true;
    else if (before.warp_barriers != moment.warp_barriers)
        byte.lanes_read = false;
    else if (before.thread != 0 && before.thread != moment.thread)
        byte.lanes_read = true;
    byte.read = moment;
}

void look_for_race(Array& array, const char* address, size_t bytes, bool writes) {
    const Moment moment = now();
    const size_t first = static_cast<size_t>(address - array.span.begin);
    for (size_t i = first; i < first + bytes; ++i) {
        History& byte = array.bytes[i];
        const bool is_written = byte.written.thread != 0 && !is_ordered(byte.written, moment);
        if (is_written || (writes && may_be_read(byte, moment))) {
            const Moment& other = is_written ? byte.written : byte.read;
            fault(
                "a race: it %s byte %zu of %s, which thread %u of block %u %s, and no barrier is between "
                "them",
                writes ? "writes" : "reads", i, array.name, other.thread - 1, other.block,
                is_written ? "writes" : "reads");
        }
        if (writes)
            byte = {moment, {}, false, false, false, false};
        else
            note_read(byte, moment);
    }
}

void check_shared(const char* address, size_t bytes, bool writes) {
    const size_t first = static_cast<size_t>(address - storage);
    bool is_inside = false;
    for (const Variable& variable : variables) is_inside |= variable.span.has(address, bytes);
    if (!is_inside)
        fault("%s %zu bytes at byte %zu of shared memory, where no variable is", writes ? "writes" : "reads",
              bytes, first);
    for (size_t i = first; i < first + bytes; ++i) {
        const History& byte = shared_memory.bytes[i];
        if (byte.is_awaited) fault("touches byte %zu of shared memory, to which an unawaited copy goes", i);
        if (!writes && byte.written.thread == 0)
            fault("reads byte %zu of shared memory, which nobody wrote", i);
    }
    look_for_race(shared_memory, address, bytes, writes);
}

void check_array(Array& array, const char* address, size_t bytes, bool writes) {
    if (writes && !array.is_writable) fault("writes to %s, which is only read", array.name);
    if (array.is_writable) look_for_race(array, address, bytes, writes);
}

[[noreturn]] void out_of_bounds(const char* address, size_t bytes, bool writes) {
    const Array* nearest = nullptr;
    const auto distance = [=](const Array& array) {
        return address < array.span.begin ? array.span.begin - address : address - array.span.end;
    };
    for (const Array& array : arrays)
        if (!nearest || distance(array) < distance(*nearest)) nearest = &array;
    const char* const what = writes ? "writes" : "reads";
    if (!nearest)
        fault("%s %zu bytes at %p, and was given no array", what, bytes, static_cast<const void*>(address));
    fault("%s %zu bytes at byte %td of %s, which has %td", what, bytes, address - nearest->span.begin,
          nearest->name, nearest->span.end - nearest->span.begin);
}

// Variables lie apart, so that running over the end of one does not hit the next.
void* add_variable(const void* key, size_t bytes, size_t alignment) {
    const size_t gap = shared_memory.bytes.empty() ? 0 : alignment;
    const size_t begin = (shared_memory.bytes.size() + gap + alignment - 1) / alignment * alignment;
    size_t of_all = bytes;
    for (const Variable& variable : variables)
        of_all += static_cast<size_t>(variable.span.end - variable.span.begin);
    if (begin + bytes > sizeof storage || of_all > MOST_SHARED_BYTES)
        fault("needs more shared memory than the %zu bytes that a block can have", MOST_SHARED_BYTES);
    char* const variable = storage + begin;
    memset(variable, POISON, bytes);
    shared_memory.bytes.resize(begin + bytes);
    shared_memory.span.end = variable + bytes;
    variables.push_back({key, {variable, variable + bytes}});
    return variable;
}

}  // namespace

void allow_local(const void* begin, size_t bytes) {
    local = {static_cast<const char*>(begin), static_cast<const char*>(begin) + bytes};
}

void allow_arguments(const void* begin, size_t bytes) {
    arguments = {static_cast<const char*>(begin), static_cast<const char*>(begin) + bytes};
}

void begin_launch_memory() {
    for (Array& array : arrays)
        if (array.is_writable) array.bytes.assign(static_cast<size_t>(array.span.end - array.span.begin), {});
}

void begin_block_memory(size_t dynamic_bytes) {
    shared_memory = {"shared memory", {storage, storage}, true, {}};
    variables.clear();
    add_variable(nullptr, dynamic_bytes, 1);
}

void* dynamic_shared() { return storage; }

void* shared_variable(const void* key, size_t bytes, size_t alignment) {
    for (const Variable& variable : variables)
        if (variable.key == key) return const_cast<char*>(variable.span.begin);
    return add_variable(key, bytes, alignment);
}

void await_copy(const void* to, size_t bytes) {
    check(to, bytes, true, bytes);
    const size_t first = static_cast<size_t>(static_cast<const char*>(to) - storage);
    if (first >= shared_memory.bytes.size()) fault("copies to what is no shared memory");
    memset(storage + first, POISON, bytes);
    for (size_t i = first; i < first + bytes; ++i) shared_memory.bytes[i].is_awaited = true;
}

void end_copy(const void* to, size_t bytes) {
    const size_t first = static_cast<size_t>(static_cast<const char*>(to) - storage);
    for (size_t i = first; i < first + bytes; ++i) shared_memory.bytes[i].is_awaited = false;
}

int check(const void* pointer, size_t bytes, bool writes, size_t alignment) {
    const char* const address = static_cast<const char*>(pointer);
    if (!is_running() || local.has(address, bytes)) return OTHER_MEMORY;
    if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
        fault("%s %zu bytes at %p, an address that is not divisible by %zu", writes ? "writes" : "reads",
              bytes, pointer, alignment);
    if (address >= storage && address < storage + sizeof storage) {
        check_shared(address, bytes, writes);
        return SHARED_MEMORY;
    }
    for (Array& array : arrays) {
        if (!array.span.has(address, bytes)) continue;
        check_array(array, address, bytes, writes);
        return static_cast<int>(&array - arrays.data());
    }
    const Span library = {__ehdr_start, _end};
    if (writes || (!arguments.has(address, bytes) && !library.has(address, bytes)))
        out_of_bounds(address, bytes, writes);
    return OTHER_MEMORY;
}

}  // namespace cuda_on_host

// For calling.py: arrays, numbered in the order in which they are given.
extern "C" void on_host_forget_arrays() { cuda_on_host::arrays.clear(); }

extern "C" void on_host_allow(const char* begin, size_t bytes, int is_writable) {
    using namespace cuda_on_host;
    Array array = {"", {begin, begin + bytes}, is_writable != 0, {}};
    snprintf(array.name, sizeof array.name, "array %zu", arrays.size());
    arrays.push_back(std::move(array));
}

// What GCC and Clang call before accesses: those of `bytes` that are known to be aligned, then the others.
static void access(const void* site, const void* at, size_t bytes, bool writes, size_t alignment) {
    const int memory = cuda_on_host::check(at, bytes, writes, alignment);
    cuda_on_host::note_access(site, at, bytes, writes, memory);
}
#define CALLBACK(name, bytes, writes, alignment) \
    extern "C" void name(void* at) { access(__builtin_return_address(0), at, bytes, writes, alignment); }
#define CALLBACKS(bytes)                                    \
    CALLBACK(__tsan_read##bytes, bytes, false, bytes)       \
    CALLBACK(__tsan_write##bytes, bytes, true, bytes)       \
    CALLBACK(__tsan_unaligned_read##bytes, bytes, false, 1) \
    CALLBACK(__tsan_unaligned_write##bytes, bytes, true, 1)
CALLBACKS(1)
CALLBACKS(2)
CALLBACKS(4)
CALLBACKS(8)
CALLBACKS(16)
#undef CALLBACKS
#undef CALLBACK
extern "C" void __tsan_read_range(void* at, size_t bytes) { cuda_on_host::check(at, bytes, false, 1); }
extern "C" void __tsan_write_range(void* at, size_t bytes) { cuda_on_host::check(at, bytes, true, 1); }
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
