// What a kernel may touch, and who has touched it: bounds, alignment and data races of every access.
//
// The compiler reports the accesses. Of `-fsanitize=thread` only its instrumentation is used: the functions
// that it calls (__tsan_read4 ...) are defined here, and look an address up in what the running thread may
// touch: its stack, the launch's arguments, constants of the library, its block's shared memory, and the arrays
// that the caller of the library named.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utility>
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

// Who has read a byte since it was written: of each warp the last time, and the lane, or several lanes.
struct Readers {
    struct {
        uint32_t time, thread;
    } of[MOST_WARPS];
};
constexpr uint32_t SEVERAL = ~0u;

// Who accessed a byte: the last writer, and who has read it since.
struct History {
    Moment written, read;  // read: the only reader, or the last of those that `readers` has
    uint32_t fences;       // of the writer, when it wrote: see fence_shared_memory()
    uint32_t readers;      // 0: at most one
    bool is_awaited;       // an asynchronous copy to it is under way
    bool clusters_read;    // besides, another cluster has read it
};

// 16 bytes of shared memory, which TMA and products read at once.
struct Chunk {
    uint16_t under_way[2];      // how many reads, by Reader
    uint32_t read[MOST_WARPS];  // by those that each warp has waited for: its time then, plus one
};
constexpr size_t CHUNK = 16;

struct Array {
    char name[32];
    Span span;
    bool is_writable;
    std::vector<History> bytes;  // of what is written
    bool is_touched = false;     // of memory of the device: in this launch
};

struct Variable {
    const void* key;
    Span span;
};

Span local, arguments;
std::vector<Array> arrays, allocated;

// Of a block of the cluster.
struct Shared {
    Array memory;
    std::vector<Variable> variables;  // the first is the dynamic part
    std::vector<Chunk> chunks;
};
constexpr size_t STORAGE = MOST_SHARED_BYTES + 5 * 1024;  // and gaps between the variables
Shared shared_memories[MOST_BLOCKS];
alignas(1024) char storage[MOST_BLOCKS][STORAGE];
std::vector<Readers> readers;  // History::readers; the first is none
std::vector<uint32_t> unused_readers;
uint32_t fences[MOST_THREADS];  // that each thread has made

uint32_t new_readers() {
    if (unused_readers.empty()) {
        readers.push_back({});
        return static_cast<uint32_t>(readers.size() - 1);
    }
    const uint32_t last = unused_readers.back();
    unused_readers.pop_back();
    readers[last] = {};
    return last;
}

void note_reader(Readers& all, const Moment& moment) {
    auto& one = all.of[moment.source];
    const bool is_over = one.thread == NOBODY || one.thread == moment.thread || one.time < moment.time;
    one = {moment.time, is_over ? moment.thread : SEVERAL};
}

// Whether a read may still be under way when the running thread writes the byte.
bool may_be_read(const History& byte) {
    if (byte.read.thread == NOBODY) return false;
    if (byte.clusters_read || byte.readers == 0) return byte.clusters_read || !is_over(byte.read);
    for (uint32_t warp = 0; warp < MOST_WARPS; ++warp) {
        const auto& one = readers[byte.readers].of[warp];
        if (one.thread != NOBODY && !is_over({byte.read.cluster, one.thread, warp, one.time})) return true;
    }
    return false;
}

void forget_reads(History& byte) {
    if (byte.readers != 0) unused_readers.push_back(byte.readers);
    byte.read = {};
    byte.readers = 0;
    byte.clusters_read = false;
}

void note_read(History& byte, const Moment& moment) {
    const bool is_other_cluster = byte.read.thread != NOBODY && byte.read.cluster != moment.cluster;
    if (is_other_cluster || byte.read.thread == NOBODY || !may_be_read(byte)) {
        const bool clusters_read = byte.clusters_read || is_other_cluster;
        forget_reads(byte);
        byte.clusters_read = clusters_read;
    } else {
        if (byte.readers == 0) {
            byte.readers = new_readers();
            note_reader(readers[byte.readers], byte.read);
        }
        note_reader(readers[byte.readers], moment);
    }
    byte.read = moment;
}

void describe(char (&text)[64], const Moment& moment, const char* what) {
    const unsigned number = moment.thread - 1, of_block = threads_of_block();
    if (moment.thread == COPY)
        snprintf(text, sizeof text, "a copy of TMA %s", what);
    else
        snprintf(text, sizeof text, "thread %u of block %u %s", number % of_block,
                 moment.cluster * blocks_of_cluster() + number / of_block, what);
}

[[noreturn]] void race(const Array& array, size_t byte, bool writes, const Moment& other, const char* what) {
    char text[64];
    describe(text, other, what);
    fault("a race: it %s byte %zu of %s, which %s, and no barrier is between them",
          writes ? "writes" : "reads", byte, array.name, text);
}

void look_for_race(Array& array, const char* address, size_t bytes, bool writes) {
    const Moment moment = now();
    const size_t first = static_cast<size_t>(address - array.span.begin);
    for (size_t i = first; i < first + bytes; ++i) {
        History& byte = array.bytes[i];
        if (byte.written.thread != NOBODY && !is_over(byte.written))
            race(array, i, writes, byte.written, "writes");
        if (!writes) {
            note_read(byte, moment);
            continue;
        }
        if (may_be_read(byte)) race(array, i, writes, byte.read, "reads");
        forget_reads(byte);
        byte.written = moment;
        byte.fences = fences[thread()];
    }
}

// Whether what reads chunks beside the threads may still do so when the running thread writes there.
void look_at_chunk(const Shared& shared, size_t byte) {
    const Chunk& chunk = shared.chunks[byte / CHUNK];
    if (chunk.under_way[static_cast<int>(Reader::PRODUCT)])
        fault("writes byte %zu of shared memory, which products under way read", byte);
    if (chunk.under_way[static_cast<int>(Reader::STORE)])
        fault("writes byte %zu of shared memory, which a store under way reads", byte);
    for (uint32_t warp = 0; warp < MOST_WARPS; ++warp)
        if (chunk.read[warp] > knowledge().of[warp])
            fault(
                "a race: it writes byte %zu of shared memory, which warp %u had read, and no barrier is "
                "between them",
                byte, warp);
}

void check_shared(unsigned of_rank, const char* address, size_t bytes, bool writes) {
    Shared& shared = shared_memories[of_rank];
    const size_t first = static_cast<size_t>(address - storage[of_rank]);
    bool is_inside = false;
    for (const Variable& variable : shared.variables) is_inside |= variable.span.has(address, bytes);
    if (of_rank >= blocks_of_cluster() || !is_inside)
        fault("%s %zu bytes at byte %zu of shared memory, where no variable is", writes ? "writes" : "reads",
              bytes, first);
    if (of_rank != rank()) require_present(of_rank);
    for (size_t i = first; i < first + bytes; ++i) {
        const History& byte = shared.memory.bytes[i];
        if (byte.is_awaited) fault("touches byte %zu of shared memory, to which an unawaited copy goes", i);
        if (!writes && byte.written.thread == NOBODY)
            fault("reads byte %zu of shared memory, which nobody wrote", i);
        if (writes && (i == first || i % CHUNK == 0)) look_at_chunk(shared, i);
    }
    look_for_race(shared.memory, address, bytes, writes);
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
void* add_variable(unsigned of_rank, const void* key, size_t bytes, size_t alignment) {
    Shared& shared = shared_memories[of_rank];
    const size_t size = shared.memory.bytes.size(), gap = size == 0 ? 0 : alignment;
    const size_t begin = (size + gap + alignment - 1) / alignment * alignment;
    size_t of_all = bytes;
    for (const Variable& variable : shared.variables)
        of_all += static_cast<size_t>(variable.span.end - variable.span.begin);
    if (begin + bytes > STORAGE || of_all > MOST_SHARED_BYTES)
        fault("needs more shared memory than the %zu bytes that a block can have", MOST_SHARED_BYTES);
    char* const variable = storage[of_rank] + begin;
    memset(variable, POISON, bytes);
    shared.memory.bytes.resize(begin + bytes);
    shared.chunks.resize((begin + bytes + CHUNK - 1) / CHUNK);
    shared.memory.span.end = variable + bytes;
    shared.variables.push_back({key, {variable, variable + bytes}});
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
    readers.assign(1, {});
    unused_readers.clear();
    for (Array& array : arrays)
        if (array.is_writable) array.bytes.assign(static_cast<size_t>(array.span.end - array.span.begin), {});
    for (Array& array : allocated)
        if (std::exchange(array.is_touched, false))
            array.bytes.assign(static_cast<size_t>(array.span.end - array.span.begin), {});
}

void begin_cluster_memory(size_t dynamic_bytes) {
    for (uint32_t& of_thread : fences) of_thread = 0;
    for (unsigned of_rank = 0; of_rank < blocks_of_cluster(); ++of_rank) {
        char* const begin = storage[of_rank];
        shared_memories[of_rank] = {{"shared memory", {begin, begin}, true, {}}, {}, {}};
        add_variable(of_rank, nullptr, dynamic_bytes, 1);
    }
}

void* dynamic_shared() { return storage[rank()]; }

void* shared_variable(const void* key, size_t bytes, size_t alignment) {
    for (const Variable& variable : shared_memories[rank()].variables)
        if (variable.key == key) return const_cast<char*>(variable.span.begin);
    return add_variable(rank(), key, bytes, alignment);
}

void* allocate(size_t bytes) {
    void* const memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(memory, POISON, bytes);
    const char* const begin = static_cast<const char*>(memory);
    allocated.push_back({"memory of the device", {begin, begin + bytes}, true, std::vector<History>(bytes)});
    return memory;
}

bool is_allocated(const void* address, size_t bytes) {
    for (const Array& array : allocated)
        if (array.span.has(static_cast<const char*>(address), bytes)) return true;
    return false;
}

char* shared_memory_of(unsigned of_rank) { return storage[of_rank]; }

size_t shared_offset(const void* address) {
    const char* const at = static_cast<const char*>(address);
    if (at < storage[rank()] || at >= storage[rank()] + STORAGE) fault("names what is not its shared memory");
    return static_cast<size_t>(at - storage[rank()]);
}

void await_copy(const void* to, size_t bytes) {
    check(to, bytes, true, bytes);
    const size_t first = shared_offset(to);
    memset(storage[rank()] + first, POISON, bytes);
    for (size_t i = first; i < first + bytes; ++i) shared_memories[rank()].memory.bytes[i].is_awaited = true;
}

void end_copy(const void* to, size_t bytes) {
    const size_t first = shared_offset(to);
    for (size_t i = first; i < first + bytes; ++i) shared_memories[rank()].memory.bytes[i].is_awaited = false;
}

void await_box(unsigned of_rank, size_t offset, size_t bytes) {
    char* const to = storage[of_rank] + offset;
    check_shared(of_rank, to, bytes, true);
    memset(to, POISON, bytes);
    for (size_t i = offset; i < offset + bytes; ++i)
        shared_memories[of_rank].memory.bytes[i].is_awaited = true;
}

void end_box(unsigned of_rank, size_t offset, size_t bytes, const Moment& moment) {
    for (size_t i = offset; i < offset + bytes; ++i) {
        History& byte = shared_memories[of_rank].memory.bytes[i];
        byte.is_awaited = false;
        byte.written = moment;
    }
}

void fence_shared_memory() { ++fences[thread()]; }

void begin_read(Reader reader, size_t offset, size_t bytes) {
    Shared& shared = shared_memories[rank()];
    if (offset + bytes > shared.memory.bytes.size())
        fault("reads %zu bytes at byte %zu of shared memory, where no variable is", bytes, offset);
    for (size_t i = offset; i < offset + bytes; ++i) {
        const History& byte = shared.memory.bytes[i];
        if (byte.is_awaited) fault("touches byte %zu of shared memory, to which an unawaited copy goes", i);
        if (byte.written.thread == NOBODY) fault("reads byte %zu of shared memory, which nobody wrote", i);
        if (!is_over(byte.written)) race(shared.memory, i, false, byte.written, "writes");
        if (byte.written.thread != COPY && fences[byte.written.thread - 1] == byte.fences)
            fault("%s byte %zu of shared memory, which a thread wrote that has made no fence since",
                  reader == Reader::PRODUCT ? "multiplies" : "stores", i);
    }
    for (size_t i = offset / CHUNK; i < (offset + bytes + CHUNK - 1) / CHUNK; ++i)
        ++shared.chunks[i].under_way[static_cast<int>(reader)];
}

void end_read(Reader reader, size_t offset, size_t bytes) {
    const Moment moment = now();
    for (size_t i = offset / CHUNK; i < (offset + bytes + CHUNK - 1) / CHUNK; ++i) {
        Chunk& chunk = shared_memories[rank()].chunks[i];
        --chunk.under_way[static_cast<int>(reader)];
        chunk.read[moment.source] = moment.time + 1;
    }
}

int check(const void* pointer, size_t bytes, bool writes, size_t alignment) {
    const char* const address = static_cast<const char*>(pointer);
    if (!is_running()) return OTHER_MEMORY;
    if (local.has(address, bytes)) {
        touch_local(address, bytes);
        return OTHER_MEMORY;
    }
    if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
        fault("%s %zu bytes at %p, an address that is not divisible by %zu", writes ? "writes" : "reads",
              bytes, pointer, alignment);
    if (address >= storage[0] && address < storage[0] + sizeof storage) {
        check_shared(static_cast<unsigned>((address - storage[0]) / STORAGE), address, bytes, writes);
        return SHARED_MEMORY;
    }
    for (Array& array : arrays) {
        if (!array.span.has(address, bytes)) continue;
        check_array(array, address, bytes, writes);
        return static_cast<int>(&array - arrays.data());
    }
    for (Array& array : allocated) {
        if (!array.span.has(address, bytes)) continue;
        array.is_touched = true;
        if (!writes && array.bytes[static_cast<size_t>(address - array.span.begin)].written.thread == NOBODY)
            fault("reads memory of the device that nobody has written in this launch");
        check_array(array, address, bytes, writes);
        return OTHER_MEMORY;
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
// Of a launcher, not of a kernel: whether a static variable of a function is initialised.
extern "C" unsigned char __tsan_atomic8_load(const volatile unsigned char* at, int) { return *at; }
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
