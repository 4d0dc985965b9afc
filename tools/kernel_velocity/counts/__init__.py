"""What is counted and not timed, so that it is the same on a busy machine: what compilers made, what a call executes.

It imports the leaves alone, so that the suite, `runner` and `ab` can use it.

    amd_code.py       figures of kernels for AMD's GPUs, read from code objects and assembly
    changes.py        what differs between the figures of two builds, and the rules that say what that is
    c_call.py         the C function behind a bound call: its library, its signature, its inputs
    callgrind.py      what one call of it executes: instructions, reads, writes, misses of simulated caches
    compiled.py       registers, shared memory, spills and bytes of code, read from the build-info.json of a build
    elf.py            the sections, symbols, relocations and functions of an ELF file
    gpu_code.py       what runs of fatbins, cubins and PTX, and what the kernels in them take
    gpu_figures.py    figures of the GPU kernels in NVIDIA's machine code, and the occupancy of any
    gpu_sources.py    where GPU code is: files of a build, and what functions of definitions compile
    listing.py        machine code as text without addresses, which commits are compared by
    machine_code.py   the instructions of a cubin by class, as nvdisasm reads them
"""
