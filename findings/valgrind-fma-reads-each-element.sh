#!/usr/bin/env bash
# valgrind 3.19.0: a 256-bit multiply-add that takes an operand from memory counts as eight reads, a multiplication as one
#
# Expected: vfmadd231ps and vmulps read the same 32 bytes by one instruction, so callgrind counts a read of each.
# Observed: 1,000 of vmulps are 1,000 reads, 1,000 of vfmadd231ps 8,000, of vfmadd231pd 4,000: one for each element.
# Why it matters: counts of reads go up where a compiler folds a load into a multiply-add, which executes one instruction
#   less and is no slower. A kernel can have more reads than instructions. Misses of the caches stay right, as the elements
#   share their line: compare bytes or misses over such a change, or instructions, not reads.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq valgrind=1:3.19.0-1 >/dev/null 2>&1
dpkg -x valgrind_*.deb .
export VALGRIND_LIB="$work/usr/libexec/valgrind"

cat >reads.c <<'C'
#include <stdlib.h>
static float data[8] __attribute__((aligned(32)));
#define REPEATED(name, instruction)                                                              \
    __attribute__((noinline)) void name(void) {                                                  \
        for (int i = 0; i < 1000; ++i) __asm__ volatile(instruction : : "m"(data) : "xmm0", "xmm1"); \
    }
REPEATED(multiply, "vmulps %0, %%ymm1, %%ymm0")
REPEATED(multiply_add, "vfmadd231ps %0, %%ymm1, %%ymm0")
REPEATED(multiply_add_of_doubles, "vfmadd231pd %0, %%ymm1, %%ymm0")
int main(void) {
    multiply();
    multiply_add();
    multiply_add_of_doubles();
    return 0;
}
C
gcc -O2 reads.c -o reads
reads_of() { # FUNCTION: data reads inside of it
    ./usr/bin/valgrind -q --tool=callgrind --cache-sim=yes --collect-atstart=no --toggle-collect="$1" \
        --callgrind-out-file="$1.out" ./reads
    sed -n 's/^totals: [0-9]* \([0-9]*\).*/\1/p' "$1.out"
}
seen="$(reads_of multiply) $(reads_of multiply_add) $(reads_of multiply_add_of_doubles)"
echo "reads of 1,000 vmulps, vfmadd231ps, vfmadd231pd: $seen"
for count in $seen; do echo "$((count / 1000))"; done | tr '\n' ' ' | grep -qx '1 8 4 '
