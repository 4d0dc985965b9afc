// The accesses of kernels to shared memory and to arrays, one by one, for traffic.py, which counts what they cost.
#include <vector>

#include "engine.h"

namespace cuda_on_host {

namespace {

struct Access {  // traffic.py has the same
    uint64_t site, address;
    uint32_t block, thread;
    int32_t memory;
    uint16_t bytes, writes;
};

bool is_noting = false;
std::vector<Access> accesses;

}  // namespace

void note_access(const void* site, const void* address, size_t bytes, bool writes, int memory) {
    if (!is_noting || memory == OTHER_MEMORY) return;
    accesses.push_back({reinterpret_cast<uint64_t>(site), reinterpret_cast<uint64_t>(address), now().cluster,
                        thread(), memory, static_cast<uint16_t>(bytes), writes});
}

}  // namespace cuda_on_host

// For calling.py. What was noted before is forgotten.
extern "C" void on_host_note_accesses(int wanted) {
    cuda_on_host::is_noting = wanted != 0;
    cuda_on_host::accesses.clear();
}

extern "C" const void* on_host_accesses(size_t* count) {
    *count = cuda_on_host::accesses.size();
    return cuda_on_host::accesses.data();
}
