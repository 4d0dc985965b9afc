"""A repository's benchmarks: its section of pyproject.toml, its definitions, and the asv classes they become.

It imports `machine`, `problem`, the engine and the leaves, and torch only in functions. Suites import it.

    alone.py         calls by themselves, held against calls in a row and against honest ones
    asv_type.py      asv's benchmark types: rounds, errors and figures of compiled code
    audit.py         was what was timed what was checked: fresh inputs, known and new ones timed in pairs
    benchmark.py     the asv classes behind a definition: set-up, checks, one round
    config.py        [tool.kernel-velocity] of pyproject.toml, asv.conf.json
    counting.py      counts calls of a build in a process of its own
    definition.py    define a benchmark in a few lines: `benchmark`, `native`
    memory.py        what tensors hold, in sums that read all of it, and which outputs are no copies
    originals.py     the functions that a round depends on, before a kernel could replace them
    packages.py      PyTorch's packages of `compile`, made before the rounds that run them
    suite.py         the package of benchmarks: kernels, problems, series
    under_test.py    the package under test, and the figures of its compiled code
"""
