// One source, compiled once per instruction set; the code for this CPU is chosen when it is called.
//
// CMake compiles each kernels/<name>/<name>.cpp with KV_ISA defined as sse2, avx2 and avx512 on x86-64, or
// once as baseline. What a kernel's file defines must be invisible to the other variants: in an anonymous
// namespace, all but the entry point. Else the linker could keep the AVX-512 code of a function for all of
// them (write_build_info.py refuses such objects).
#ifndef KV_ISA_H
#define KV_ISA_H

#include "kv.h"

// The instruction sets of this build, slowest first: DO(isa, ...) for each.
#ifdef KV_X86_ISAS
#define KV_ISAS(DO, ...) DO(sse2, __VA_ARGS__) DO(avx2, __VA_ARGS__) DO(avx512, __VA_ARGS__)
#else
#define KV_ISAS(DO, ...) DO(baseline, __VA_ARGS__)
#endif

namespace kv {

#define KV_ENUMERATOR(isa, ...) isa,
enum Isa : int { KV_ISAS(KV_ENUMERATOR, ) UNKNOWN = -1, NONE = -2 };
#undef KV_ENUMERATOR

// The instruction set whose code runs; NONE where KV_ISA asks for what is not there. Defined in isa.cpp.
Isa isa();

}  // namespace kv

// The entry point of a CPU kernel: KV_CPU_KERNEL(kv_<name>_cpu, (its parameters), (their names)) { ... }
// The body is compiled per instruction set; what is exported calls the one that kv::isa() says.
#ifdef KV_ISA
#define KV_VARIANT(name) KV_PASTED(name, KV_ISA)
#else  // a file compiled by itself, not by CMake
#define KV_VARIANT(name) name
#endif
#define KV_PASTED(name, isa) KV_WITH_SUFFIX(name, isa)
#define KV_WITH_SUFFIX(name, isa) name##_##isa

#define KV_DECLARE_VARIANT(isa, name, parameters, arguments) extern "C" int name##_##isa parameters;
#define KV_CALL_VARIANT(isa, name, parameters, arguments) \
    case kv::isa:                                         \
        return name##_##isa arguments;

#if !defined(KV_ISA)
#define KV_CPU_KERNEL(name, parameters, arguments) extern "C" KV_API int name parameters
#elif defined(KV_DISPATCHES)  // one of the variants has the exported function
#define KV_CPU_KERNEL(name, parameters, arguments)                \
    KV_ISAS(KV_DECLARE_VARIANT, name, parameters, arguments)      \
    extern "C" KV_API int name parameters {                       \
        switch (kv::isa()) {                                      \
            KV_ISAS(KV_CALL_VARIANT, name, parameters, arguments) \
            default:                                              \
                return KV_ERROR_ISA;                              \
        }                                                         \
    }                                                             \
    int KV_VARIANT(name) parameters
#else
#define KV_CPU_KERNEL(name, parameters, arguments) extern "C" int KV_VARIANT(name) parameters
#endif

#endif  // KV_ISA_H
