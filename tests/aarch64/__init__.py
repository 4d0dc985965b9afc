"""The CPU kernels compiled for aarch64 and run by an emulator (qemu-user), where the machine is another.

`emulated` builds the library with a cross compiler, and `caller.cpp`, which calls its functions within the emulator.
Arrays go there and back by pipes. `instead_of_native` lets Python's functions do so, and with it every test of a CPU
kernel: "aarch64" is one of the instruction sets of tests/kernels/instruction_sets.py.

What it finds: code that does not compile or warns, wrong results, errors beyond the bounds, accesses beside arrays that
write. What it cannot say: anything of speed. What a processor that reorders memory accesses does.
"""
