"""What is counted and not timed, so that it is the same on a busy machine: what compilers made, what a call executes.

It imports the leaves alone, so that the suite, `runner` and `ab` can use it.

    changes.py    what differs between the figures of two builds, and the rules that say what that is
    c_call.py     the C function behind a bound call: its library, its signature, its inputs
    callgrind.py  what one call of it executes: instructions, reads, writes, misses of simulated caches
    compiled.py   registers, shared memory, spills and bytes of code, read from the build-info.json of a build
"""
