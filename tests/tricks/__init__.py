"""The red team: tricks that make a kernel look faster than it is, each with the same code without the trick.

table.py        the tricks: what each does, its source, what must find it
honest_code.py  honest kernels that look like tricks
running.py      one round in a process of its own, as asv runs it, or a comparison
cuda.py         streams of a pretended device, whose kernels the host emulation runs
"""
