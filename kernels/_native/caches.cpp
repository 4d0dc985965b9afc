// From which size on calls write around the caches; see kv_stream.h.
#include <algorithm>
#include <atomic>
#include <cstdio>

#include "kv.h"
#include "kv_stream.h"

namespace {

constexpr int64_t UNKNOWN = int64_t{32} << 20;  // bytes, where the system does not say: a common last cache

// The largest of the caches that the first core has, or shares.
// Note: not sysconf(_SC_LEVEL3_CACHE_SIZE), which on AMD gives that of all cores together (320 MB for 32).
int64_t last_cache() {
    int64_t found = 0;
    for (int index = 0; index < 16; ++index) {
        char path[64];
        std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        std::FILE* const file = std::fopen(path, "r");
        if (!file) break;
        long long kib = 0;
        if (std::fscanf(file, "%lldK", &kib) == 1) found = std::max<int64_t>(found, kib * 1024);
        std::fclose(file);
    }
    return found > 0 ? found : UNKNOWN;
}

std::atomic<int64_t> chosen{-1};

}  // namespace

bool kv::streams(int64_t bytes) {
    static const int64_t usual = last_cache();
    const int64_t above = chosen.load(std::memory_order_relaxed);
    return bytes > (above < 0 ? usual : above);
}

extern "C" void kv_stream_above(int64_t bytes) { chosen = bytes; }
