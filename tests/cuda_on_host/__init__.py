"""CUDA's execution model on the CPU: kernels/*/*.cu compiled as C++ and run, where there is no GPU.

`rewriting` turns CUDA's two syntaxes that C++ lacks into calls. `include/` stands in for the toolkit's headers.
`engine/` runs a block's threads as fibers of one thread and looks at each access that the compiler reports to it
(`-fsanitize=thread`, whose callbacks are the engine's own). `building` compiles a kernel, `calling` calls it, `traffic`
counts what its accesses cost: sectors of global memory, conflicts of banks of shared memory.

Of Hopper it has clusters, signals between them, barriers in shared memory, TMA and wgmma (`engine/hopper.cpp`). Copies
and products are done as late as a kernel may expect, and until then what they use may not be touched.

What it finds: results that are wrong in any order of threads, accesses outside an argument's memory, misaligned
vectors, data races in shared and global memory, barriers that not all threads reach, reads of what was never written
(0xff bytes: NaN), on Hopper missing fences, wrong parities, stages that are filled or left too early. What it cannot
say: how long anything takes. The last bits of CUDA's own exp and of tensor cores. What caches, real concurrency and the
compiler of a GPU do.
"""
