// What compute capability 9.0 does beside the threads: barriers in shared memory, copies of boxes (TMA), products of
// warp groups (wgmma). Each is done as late as a kernel may expect, and until then nobody may touch what it uses.
#include <string.h>

#include <algorithm>
#include <map>
#include <type_traits>
#include <vector>

#include "../include/cuda.h"
#include "../include/kv_cuda_float16.h"

namespace cuda_on_host {

namespace {

constexpr uint64_t MAP_MARK = 0x70616d726f736e65;

// What TensorMap::opaque holds.
struct Map {
    uint64_t mark;
    char* base;
    uint64_t columns, rows, stride;  // stride: bytes from a row to the next
    uint32_t box_columns, box_rows;
    uint32_t item, swizzle;  // bytes; swizzle: of a row, 0: none
};
static_assert(sizeof(Map) <= sizeof(TensorMap), "it fits");

struct SharedBarrier {
    unsigned number, expected, pending;
    int64_t bytes;  // announced, less those that have come
    uint32_t phase;
    Moment initialised;
    bool is_fenced;
    Knowledge arrived, of_phases;  // what those know who have arrived, and had when the last phase ended
};

// A copy to one block's shared memory.
struct Load {
    Map map;
    int column, row;
    unsigned rank;
    size_t offset, barrier;
};

struct Store {
    Map map;
    int column, row;
    size_t offset;
};

// Registers of a thread that products use: `values` is what sums will be, `group` the last that uses them.
struct Registers {
    char* begin;
    size_t bytes;
    std::vector<char> values;
    unsigned group;
    bool is_under_way, is_touched;
};

struct Piece {
    size_t offset, bytes;
};

// What a thread has under way. Groups are numbered from 1; `open`: of the group that is not yet committed.
struct UnderWay {
    std::vector<Store> open_stores;
    std::vector<std::vector<Store>> stores;
    std::vector<Registers> registers;
    std::vector<Piece> open_reads;          // of products, those that this lane has read for its warp
    std::vector<std::vector<Piece>> reads;  // of groups that are not done
    unsigned products = 0, committed = 0, done = 0;
    bool has_fence = false;
};

// What a warp multiplies, as rows of 32 bytes of k: its 16 rows of A, and columns of B. The first lane reads it for all.
struct Factors {
    unsigned number;  // of the warp's product
    char a[16][32], b[256][32];
};
Factors factors_of_warps[MOST_WARPS];

// Which signals have been given and not yet taken, and by whom; and those that this cluster has taken, and when.
struct Given {
    uint32_t cluster;
    Knowledge known;
};
struct Taken {
    Given given;
    Moment moment;
};
std::map<unsigned*, Given> signals;
std::vector<Taken> taken;

std::map<size_t, SharedBarrier> barriers[MOST_BLOCKS];  // by where they lie
unsigned count_of_barriers;
std::vector<Load> loads;
UnderWay all_under_way[MOST_THREADS];

UnderWay& under_way() { return all_under_way[thread()]; }

SharedBarrier& barrier_at(unsigned of_rank, size_t offset) {
    const auto found = barriers[of_rank].find(offset);
    if (found == barriers[of_rank].end()) fault("waits or arrives where no barrier was initialised");
    if (!is_over(found->second.initialised))
        fault(
            "waits or arrives at a barrier that another thread initialised, and no barrier is between them");
    return found->second;
}

void end_phase_if_complete(SharedBarrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.pending = barrier.expected;
    barrier.arrived.of[MOST_WARPS + barrier.number] = barrier.phase;
    barrier.of_phases = barrier.arrived;
}

Map read_map(const TensorMap* map) {
    Map result;
    memcpy(&result, map, sizeof result);
    if (result.mark != MAP_MARK) fault("copies by what is no tensor map");
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0) fault("a tensor map that is not aligned to 64 bytes");
    return result;
}

size_t box_bytes(const Map& map) { return size_t{map.box_columns} * map.box_rows * map.item; }

// Address bits from 4 on are changed by those from 7 on: three of a swizzle of 128 bytes, two of 64, one of 32.
size_t swizzled(size_t offset, unsigned swizzle) {
    return swizzle < 32 ? offset : offset ^ ((offset >> 7) & (swizzle / 16 - 1)) << 4;
}

// Calls act(where in shared memory, where in the matrix or null beyond it, bytes) for each 16 bytes of a box.
template <class Act>
void for_chunks(const Map& map, int column, int row, size_t offset, const Act& act) {
    const size_t of_row = size_t{map.box_columns} * map.item, per_chunk = 16 / map.item;
    for (size_t i = 0; i < map.box_rows; ++i)
        for (size_t j = 0; j < map.box_columns; j += per_chunk) {
            const size_t x = static_cast<size_t>(column) + j, y = static_cast<size_t>(row) + i;
            const size_t at = swizzled(offset + i * of_row + j * map.item, map.swizzle);
            const size_t left = x < map.columns && y < map.rows ? map.columns - x : 0;
            char* const there = left > 0 ? map.base + y * map.stride + x * map.item : nullptr;
            act(at, there, std::min(left, per_chunk) * map.item);
        }
}

// Looks at the rows of a box in global memory: each is a request of its own.
void access_rows(const Map& map, int column, int row, bool writes) {
    static const char site = 0;
    const size_t columns =
        map.columns > static_cast<size_t>(column) ? map.columns - static_cast<size_t>(column) : 0;
    const size_t bytes = std::min<size_t>(columns, map.box_columns) * map.item;
    for (size_t i = static_cast<size_t>(row);
         bytes > 0 && i < std::min<size_t>(map.rows, static_cast<size_t>(row) + map.box_rows); ++i) {
        const char* const at = map.base + i * map.stride + static_cast<size_t>(column) * map.item;
        note_access(&site, at, bytes, writes, check(at, bytes, writes, 1));
    }
}

void require_box(const Map& map, int column, int row, size_t offset) {
    if (column < 0 || row < 0) fault("a box at column %d, row %d, which is not emulated", column, row);
    if (offset % 128 != 0) fault("a box at byte %zu of shared memory, no multiple of 128", offset);
    if (map.swizzle != 0 && offset % (map.swizzle * 8) != 0)
        fault("a box at byte %zu of shared memory, where no pattern of its swizzle begins", offset);
}

void finish(const Load& load) {
    SharedBarrier& barrier = barriers[load.rank].at(load.barrier);
    for_chunks(load.map, load.column, load.row, load.offset, [&](size_t to, const char* from, size_t bytes) {
        char* const at = shared_memory_of(load.rank) + to;
        memset(at, 0, 16);
        if (from) memcpy(at, from, bytes);
    });
    const Moment moment = {cluster_number(), COPY, MOST_WARPS + barrier.number, barrier.phase};
    end_box(load.rank, load.offset, box_bytes(load.map), moment);
    barrier.bytes -= static_cast<int64_t>(box_bytes(load.map));
    end_phase_if_complete(barrier);
}

void finish(const Store& store) {
    access_rows(store.map, store.column, store.row, true);
    for_chunks(store.map, store.column, store.row, store.offset, [](size_t from, char* to, size_t bytes) {
        if (to) memcpy(to, shared_memory_of(rank()) + from, bytes);
    });
    end_read(Reader::STORE, store.offset, box_bytes(store.map));
}

}  // namespace

void begin_launch_hopper() { signals.clear(); }

void end_launch_hopper() {
    if (!signals.empty()) set_fault("a signal was given that no cluster has taken");
}

void begin_cluster_hopper() {
    taken.clear();
    for (auto& of_block : barriers) of_block.clear();
    count_of_barriers = 0;
    loads.clear();
    for (UnderWay& of_thread : all_under_way) of_thread = {};
    for (Factors& factors : factors_of_warps) factors.number = 0;
}

bool finish_a_copy() {
    if (loads.empty()) return false;
    const size_t last = loads.size() - 1;
    const size_t which = order() == Order::FORWARD    ? 0
                         : order() == Order::BACKWARD ? last
                                                      : random_bits() % loads.size();
    const Load load = loads[which];
    loads.erase(loads.begin() + static_cast<ptrdiff_t>(which));
    finish(load);
    return true;
}

void look_at_who_leaves() {
    const UnderWay& own = under_way();
    if (!own.open_stores.empty() || !own.stores.empty())
        fault("leaves while a store reads its shared memory");
    for (const Registers& registers : own.registers)
        if (registers.is_under_way) fault("leaves while products are under way");
}

void touch_local(const void* address, size_t bytes) {
    const char* const at = static_cast<const char*>(address);
    for (Registers& registers : under_way().registers) {
        if (at + bytes <= registers.begin || at >= registers.begin + registers.bytes) continue;
        if (registers.is_under_way) fault("touches registers that a product under way uses");
        registers.is_touched = true;
    }
}

// Barriers.

void init_barrier(const void* at, unsigned arrivals) {
    const size_t offset = shared_offset(at);
    if (offset % 8 != 0) fault("a barrier at byte %zu of shared memory, no multiple of 8", offset);
    if (count_of_barriers == MOST_BARRIERS) fault("more than %u barriers", MOST_BARRIERS);
    if (arrivals == 0) fault("a barrier for no arrivals");
    barriers[rank()][offset] = {count_of_barriers++, arrivals, arrivals, 0, 0, now(), false, {}, {}};
}

void fence_barriers() {
    for (auto& [offset, barrier] : barriers[rank()])
        barrier.is_fenced |= barrier.initialised.thread == thread() + 1;
}

void arrive(const void* at, unsigned of_rank) {
    const size_t offset = shared_offset(at);
    if (of_rank != rank()) require_present(of_rank);
    SharedBarrier& barrier = barrier_at(of_rank, offset);
    if (of_rank != rank() && !barrier.is_fenced)
        fault("arrives at another block's barrier, which no fence has published");
    if (barrier.pending == 0) fault("arrives at a barrier at which all have arrived");
    barrier.arrived.add(knowledge());
    --barrier.pending;
    end_phase_if_complete(barrier);
}

void arrive_and_expect(const void* at, unsigned bytes) {
    barrier_at(rank(), shared_offset(at)).bytes += bytes;
    arrive(at, rank());
}

void wait(const void* at, unsigned parity) {
    const SharedBarrier& barrier = barrier_at(rank(), shared_offset(at));
    wait_until([](const void* what,
                  unsigned number) { return (static_cast<const SharedBarrier*>(what)->phase & 1) != number; },
               &barrier, parity);
    knowledge().add(barrier.of_phases);
}

// Signals.

void give_signal(unsigned* signal) {
    if (!is_allocated(signal, sizeof *signal)) fault("gives a signal in what is no memory of the device");
    if (*signal != 0) fault("gives a signal where there was one, or no 0");
    *signal = 1;
    signals[signal] = {cluster_number(), knowledge()};
}

void take_signal(unsigned* signal) {
    const auto found = signals.find(signal);
    if (found == signals.end()) fault("waits for a signal that no cluster before it gives");
    *signal = 0;
    taken.push_back({found->second, now()});
    signals.erase(found);
}

bool is_signalled(const Moment& past) {
    return std::any_of(taken.begin(), taken.end(), [&](const Taken& one) {
        return one.given.cluster == past.cluster && past.thread != COPY &&
               past.time < one.given.known.of[past.source] && is_over(one.moment);
    });
}

// TMA.

unsigned encode_map(TensorMap* map, void* base, const uint64_t* sizes, const uint64_t* strides,
                    const uint32_t* box, const uint32_t* steps, unsigned item, unsigned swizzle) {
    constexpr uint64_t MOST = uint64_t{1} << 32;
    const bool is_right = reinterpret_cast<uintptr_t>(map) % 64 == 0 &&
                          reinterpret_cast<uintptr_t>(base) % 16 == 0 && sizes[0] > 0 && sizes[1] > 0 &&
                          sizes[0] <= MOST && sizes[1] <= MOST && strides[0] % 16 == 0 &&
                          strides[0] >= sizes[0] * item && strides[0] < uint64_t{1} << 40 && box[0] > 0 &&
                          box[1] > 0 && box[0] <= 256 && box[1] <= 256 && box[0] * item % 16 == 0 &&
                          steps[0] == 1 && steps[1] == 1 && (swizzle == 0 || box[0] * item <= swizzle);
    if (!is_right) return 1;
    const Map result = {
        MAP_MARK, static_cast<char*>(base), sizes[0], sizes[1], strides[0], box[0], box[1], item, swizzle};
    memset(map, 0, sizeof *map);
    memcpy(map, &result, sizeof result);
    return 0;
}

void load_box(const void* to, const TensorMap* tensor, int column, int row, const void* barrier,
              unsigned ranks) {
    const Map map = read_map(tensor);
    const size_t offset = shared_offset(to), at = shared_offset(barrier);
    require_box(map, column, row, offset);
    access_rows(map, column, row, false);
    for (unsigned of_rank = 0; of_rank < blocks_of_cluster(); ++of_rank) {
        if (!(ranks >> of_rank & 1)) continue;
        if (of_rank != rank()) require_present(of_rank);
        if (!barrier_at(of_rank, at).is_fenced) fault("copies to a barrier that no fence has published");
        await_box(of_rank, offset, box_bytes(map));
        loads.push_back({map, column, row, of_rank, offset, at});
    }
}

void store_box(const TensorMap* tensor, int column, int row, const void* from) {
    const Store store = {read_map(tensor), column, row, shared_offset(from)};
    require_box(store.map, column, row, store.offset);
    begin_read(Reader::STORE, store.offset, box_bytes(store.map));
    under_way().open_stores.push_back(store);
}

void commit_stores() {
    under_way().stores.push_back(std::move(under_way().open_stores));
    under_way().open_stores.clear();
}

void wait_for_stores(unsigned groups_left) {
    auto& groups = under_way().stores;
    while (groups.size() > groups_left) {
        for (const Store& store : groups.front()) finish(store);
        groups.erase(groups.begin());
    }
}

// Products.

namespace {

// Registers at an address, which a product is about to use.
Registers& use(void* begin, size_t bytes) {
    UnderWay& own = under_way();
    for (Registers& registers : own.registers) {
        if (registers.begin != begin || registers.bytes != bytes) continue;
        if (registers.is_touched && !registers.is_under_way)
            fault("multiplies with registers that were touched since the last fence");
        return registers;
    }
    if (!own.has_fence) fault("multiplies without a fence before");
    own.registers.push_back({static_cast<char*>(begin), bytes, {}, 0, false, false});
    return own.registers.back();
}

struct Descriptor {
    size_t start, leading, stride;
    unsigned swizzle;

    explicit Descriptor(uint64_t bits) {
        start = (bits & 0x3fff) << 4;
        leading = (bits >> 16 & 0x3fff) << 4;
        stride = (bits >> 32 & 0x3fff) << 4;
        swizzle = (const unsigned[]){0, 128, 64, 32}[bits >> 62];
        if (bits >> 49 & 7) fault("a descriptor with a base offset, which is not emulated");
    }

    // Where 16 bytes lie, in a row of a factor, along k; of the row and the number of the 16 bytes.
    size_t along_k(size_t row, size_t chunk) const {
        const size_t of_row = swizzle ? swizzle : 16, apart = swizzle ? 16 : leading;
        return swizzled(start + row / 8 * stride + row % 8 * of_row + chunk * apart, swizzle);
    }
    // In a row of k, along n.
    size_t along_n(size_t k, size_t chunk) const {
        const size_t per = swizzle ? swizzle / 16 : 1, groups = swizzle ? leading : stride,
                     eights = swizzle ? stride : leading;
        return swizzled(start + chunk / per * groups + k / 8 * eights + (k % 8 * per + chunk % per) * 16,
                        swizzle);
    }
};

const char* read_chunk(size_t offset) {
    begin_read(Reader::PRODUCT, offset, 16);
    under_way().open_reads.push_back({offset, 16});
    return shared_memory_of(rank()) + offset;
}

void read_rows(char (*to)[32], uint64_t descriptor, size_t first, size_t rows) {
    const Descriptor factor(descriptor);
    for (size_t row = 0; row < rows; ++row)
        for (size_t chunk = 0; chunk < 2; ++chunk)
            memcpy(to[row] + chunk * 16, read_chunk(factor.along_k(first + row, chunk)), 16);
}

void read_columns(char (*to)[32], uint64_t descriptor, size_t columns) {
    const Descriptor factor(descriptor);
    for (size_t k = 0; k < 16; ++k)
        for (size_t chunk = 0; chunk < columns / 8; ++chunk) {
            const char* const from = read_chunk(factor.along_n(k, chunk));
            for (size_t i = 0; i < 8; ++i) memcpy(to[chunk * 8 + i] + k * 2, from + i * 2, 2);
        }
}

Factors& factors_of(const Product& product) {
    Factors& factors = factors_of_warps[warp()];
    if (factors.number == under_way().products) return factors;
    factors.number = under_way().products;
    if (!product.a_words) {
        read_rows(factors.a, product.a, thread() % WARPGROUP / WARP * 16, 16);
        read_columns(factors.b, product.b, product.columns);
        return factors;
    }
    for (unsigned i = 0; i < 4; ++i)
        for (unsigned lane = 0; lane < WARP; ++lane)
            memcpy(factors.a[lane / 4 + i % 2 * 8] + i / 2 * 16 + lane % 4 * 4, &product.a_words[i][lane], 4);
    read_rows(factors.b, product.b, 0, product.columns);
    return factors;
}

float number_of(kv::Float16 item) { return number(item); }
float number_of(kv::Bfloat16 item) { return number(item); }
int number_of(int8_t item) { return item; }
// E4M3 of Micikevicius et al., FP8 Formats for Deep Learning, 2022: no infinities, one NaN of either sign.
float number_of(kv::Float8 item) {
    const int exponent = item.bits >> 3 & 15, fraction = item.bits & 7;
    if ((item.bits & 0x7f) == 0x7f) return NAN;
    const float size = exponent ? ldexpf(static_cast<float>(8 + fraction), exponent - 10)
                                : ldexpf(static_cast<float>(fraction), -9);
    return item.bits & 0x80 ? -size : size;
}

template <class T, class Number>
struct Numbers {
    static constexpr unsigned COUNT = 32 / sizeof(T);
    Number of[COUNT];
    explicit Numbers(const char* from) {
        T items[COUNT];
        memcpy(items, from, sizeof items);
        for (unsigned k = 0; k < COUNT; ++k) of[k] = number_of(items[k]);
    }
};

// Sums are in the order of k; a tensor core's order and rounding are its own. Those of int wrap around.
template <class T, class Sum>
void add_products(char* to, const Factors& factors, unsigned columns, bool add) {
    using Wide = std::conditional_t<std::is_same<Sum, int>::value, unsigned, Sum>;
    const Numbers<T, Sum> rows[2] = {Numbers<T, Sum>(factors.a[lane() / 4]),
                                     Numbers<T, Sum>(factors.a[lane() / 4 + 8])};
    for (unsigned i = 0; i < columns / 4; ++i) {
        const Numbers<T, Sum> column(factors.b[i / 2 * 8 + lane() % 4 * 2 + i % 2]);
        for (unsigned half = 0; half < 2; ++half) {
            char* const at = to + (i / 2 * 4 + half * 2 + i % 2) * sizeof(Sum);
            Wide sum = 0;
            if (add) memcpy(&sum, at, sizeof sum);
            for (unsigned k = 0; k < column.COUNT; ++k)
                sum += static_cast<Wide>(rows[half].of[k] * column.of[k]);
            memcpy(at, &sum, sizeof sum);
        }
    }
}

}  // namespace

void fence_products() {
    exchange(~0u, 0, false);
    under_way().has_fence = true;
    for (Registers& registers : under_way().registers) registers.is_touched = false;
}

void multiply(const Product& product) {
    exchange(~0u, 0, false);
    UnderWay& own = under_way();
    ++own.products;
    const Factors& factors = factors_of(product);
    if (product.a_registers) {
        Registers& registers = use(product.a_registers, 4 * sizeof(uint32_t));
        registers.is_under_way = true;
        registers.group = own.committed + 1;
    }
    const size_t bytes = product.columns / 2 * sizeof(float);
    Registers& registers = use(product.sums, bytes);
    if (!registers.is_under_way) {
        registers.values.assign(registers.begin, registers.begin + bytes);
        memset(product.sums, 0xff, bytes);
    }
    registers.is_under_way = true;
    registers.group = own.committed + 1;
    char* const to = registers.values.data();
    switch (product.kind) {
        case Kind::FLOAT16:
            return add_products<kv::Float16, float>(to, factors, product.columns, product.add);
        case Kind::BFLOAT16:
            return add_products<kv::Bfloat16, float>(to, factors, product.columns, product.add);
        case Kind::INT8:
            return add_products<int8_t, int>(to, factors, product.columns, product.add);
        case Kind::FLOAT8:
            return add_products<kv::Float8, float>(to, factors, product.columns, product.add);
    }
}

void commit_products() {
    exchange(~0u, 0, false);
    UnderWay& own = under_way();
    ++own.committed;
    own.reads.push_back(std::move(own.open_reads));
    own.open_reads.clear();
}

void wait_for_products(unsigned groups_left) {
    exchange(~0u, 0, false);
    UnderWay& own = under_way();
    while (own.committed - own.done > groups_left) {
        ++own.done;
        for (const Piece& span : own.reads.front()) end_read(Reader::PRODUCT, span.offset, span.bytes);
        own.reads.erase(own.reads.begin());
    }
    own.has_fence = false;
    for (Registers& registers : own.registers) {
        if (!registers.is_under_way || registers.group > own.done) continue;
        registers.is_under_way = false;
        if (!registers.values.empty()) memcpy(registers.begin, registers.values.data(), registers.bytes);
        registers.values.clear();
    }
}

}  // namespace cuda_on_host

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    const unsigned item = type == CU_TENSOR_MAP_DATA_TYPE_UINT8   ? 1
                          : type == CU_TENSOR_MAP_DATA_TYPE_INT32 ? 4
                                                                  : 2;
    const unsigned of_row = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 0 : 16u << swizzle;
    if (rank != 2 || cuda_on_host::encode_map(map, base, sizes, strides, box, steps, item, of_row) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
