// cp.async: copies to shared memory that are done as late as a kernel may expect, when their group is waited for.
// Until then nobody may touch their destination.
#include <string.h>

#include <utility>
#include <vector>

#include "engine.h"

namespace cuda_on_host {

namespace {

struct Copy {
    char* to;
    const char* from;
    size_t bytes, zeros;  // zeros: of the bytes, those at the end that are not read
};

struct Copies {
    std::vector<std::vector<Copy>> committed;  // the oldest group first
    std::vector<Copy> open;
};

Copies copies[MOST_THREADS];
const char source = 0,
           destination = 0;  // the sites of all copies: lanes make the same ones in the same order

Copies& own() { return copies[thread()]; }

void finish(const Copy& copy) {
    end_copy(copy.to, copy.bytes);
    check(copy.to, copy.bytes, true, copy.bytes);
    memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
    memset(copy.to + copy.bytes - copy.zeros, 0, copy.zeros);
}

}  // namespace

void begin_cluster_copies() {
    for (Copies& of_thread : copies) of_thread = {};
}

void copy_later(void* to, const void* from, size_t bytes, size_t zeros) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes)
        fault("copies %zu bytes, %zu of them zeros: wanted 4, 8 or 16", bytes, zeros);
    const int memory = zeros < bytes ? check(from, bytes - zeros, false, 1) : OTHER_MEMORY;
    if (reinterpret_cast<uintptr_t>(from) % bytes != 0)
        fault("copies %zu bytes from an address that they do not divide", bytes);
    await_copy(to, bytes);
    note_access(&source, from, bytes - zeros, false, memory);
    note_access(&destination, to, bytes, true, SHARED_MEMORY);
    own().open.push_back({static_cast<char*>(to), static_cast<const char*>(from), bytes, zeros});
}

void commit_copies() {
    own().committed.push_back(std::move(own().open));
    own().open.clear();
}

void wait_for_copies(unsigned groups_left) {
    auto& groups = own().committed;
    while (groups.size() > groups_left) {
        for (const Copy& copy : groups.front()) finish(copy);
        groups.erase(groups.begin());
    }
}

}  // namespace cuda_on_host
