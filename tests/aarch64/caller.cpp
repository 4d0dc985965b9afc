// Calls functions of a library on behalf of another process: `caller LIBRARY` reads calls from standard input and
// writes what became of them to standard output, until the input ends (emulated.py is the other side).
//
// A call: the lengths of the function's name, of its list of arrays and of its lists of integers and floats; the name;
// the arrays (bytes, how many bytes behind a line's beginning, contents); the integers (the place of an array among
// the arrays and 1, or a value and 0); the floats, as they lie in registers of 64 bits. All numbers are 64 bits.
// The answer: what the function returned, and the arrays' contents. Writing beside an array ends the process.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifndef __aarch64__
#error "Call needs the rules for calls of aarch64"
#endif

namespace {

// Any function of up to eight integers and pointers, and eight floats or doubles, in any order among each other: those
// come in x0 to x7 and these in v0 to v7, and a function looks at none but its own, of a float at the lower half
// (AAPCS64, 6.8.2).
using Call = int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double,
                     double, double, double, double, double, double, double);

constexpr size_t LINE = 64, GUARD = 256;  // bytes
constexpr unsigned char POISON = 0xA5;

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
}

void read(void* to, size_t bytes) {
    if (std::fread(to, 1, bytes, stdin) != bytes) fail("the input ends within a call");
}

uint64_t number() {
    uint64_t value;
    read(&value, sizeof value);
    return value;
}

// An array amid poison.
class Array {
  public:
    Array() : size(number()) {
        const size_t shift = number();
        memory.assign(size + 2 * GUARD + 2 * LINE, POISON);
        const size_t at = reinterpret_cast<uintptr_t>(memory.data()) % LINE;
        first = GUARD + LINE - at + shift;
        read(begin(), size);
    }

    unsigned char* begin() { return memory.data() + first; }

    void write() const {
        for (size_t i = 0; i < memory.size(); ++i)
            if ((i < first || i >= first + size) && memory[i] != POISON)
                fail("bytes beside an array were written");
        std::fwrite(memory.data() + first, 1, size, stdout);
    }

  private:
    size_t size, first;
    std::vector<unsigned char> memory;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) fail("wanted one argument, a library");
    void* const library = dlopen(arguments[1], RTLD_NOW);
    if (!library) fail(dlerror());
    for (uint64_t length; std::fread(&length, sizeof length, 1, stdin) == 1;) {
        const uint64_t of_arrays = number(), of_integers = number(), of_floats = number();
        std::string name(length, ' ');
        read(name.data(), length);
        void* const symbol = dlsym(library, name.c_str());
        if (!symbol) fail(dlerror());
        std::vector<Array> arrays(of_arrays);
        uint64_t x[8] = {};
        double v[8] = {};
        if (of_integers > 8 || of_floats > 8) fail(name + " has more arguments than there are registers");
        for (uint64_t i = 0; i < of_integers; ++i) {
            const uint64_t value = number();
            x[i] = number() ? reinterpret_cast<uintptr_t>(arrays.at(value).begin()) : value;
        }
        read(v, of_floats * sizeof *v);
        const int64_t status =
            reinterpret_cast<Call>(symbol)(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7],  //
                                           v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        std::fwrite(&status, sizeof status, 1, stdout);
        for (const Array& array : arrays) array.write();
        std::fflush(stdout);
    }
}
