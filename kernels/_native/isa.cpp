// Which instruction set the CPU kernels use: the best that this CPU has, or what KV_ISA names.
// Chosen once, by the first call of any kernel; compiled for the oldest CPU.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kv_isa.h"

#ifdef KV_X86_ISAS
#include <cpuid.h>
#endif

namespace {

using kv::Isa;

#define KV_NAME(isa, ...) #isa,
constexpr const char* NAMES[] = {KV_ISAS(KV_NAME, )};
#undef KV_NAME
constexpr int COUNT = sizeof NAMES / sizeof *NAMES;

#ifdef KV_X86_ISAS

// Note: not __builtin_cpu_supports("f16c"), which GCC knows from version 11 on.
bool has_f16c() {
    unsigned int a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// Whether this CPU, and its system, run code compiled with the flags that CMakeLists.txt gives the
// instruction set.
bool runs(int isa) {
    switch (isa) {
        case kv::avx512:
            return runs(kv::avx2) && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
        case kv::avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
        default:
            return true;
    }
}

#else

bool runs(int) { return true; }

#endif

Isa find(const char* name) {
    for (int i = 0; i < COUNT; ++i)
        if (std::strcmp(name, NAMES[i]) == 0 && runs(i)) return static_cast<Isa>(i);
    return kv::NONE;
}

Isa best() {
    int i = COUNT - 1;
    while (!runs(i)) --i;
    return static_cast<Isa>(i);
}

Isa at_first() {
    const char* asked = std::getenv("KV_ISA");
    return asked && *asked ? find(asked) : best();
}

std::atomic<Isa> chosen{kv::UNKNOWN};

}  // namespace

kv::Isa kv::isa() {
    Isa isa = chosen.load(std::memory_order_relaxed);
    if (isa != UNKNOWN) return isa;
    const Isa found = at_first();
    // Where another thread was first, its choice holds: it may be that of kv_choose_isa.
    return chosen.compare_exchange_strong(isa, found) ? found : isa;
}

extern "C" const char* kv_isa(void) {
    const Isa isa = kv::isa();
    return isa == kv::NONE ? nullptr : NAMES[isa];
}

extern "C" const char* kv_isas(void) {
    static const std::string names = [] {
        std::string text;
        for (int i = 0; i < COUNT; ++i)
            if (runs(i)) text += (text.empty() ? "" : " ") + std::string(NAMES[i]);
        return text;
    }();
    return names.c_str();
}

extern "C" int kv_choose_isa(const char* name) {
    const Isa isa = name ? find(name) : at_first();
    if (isa == kv::NONE) return KV_ERROR_ISA;
    chosen = isa;
    return KV_OK;
}
