"""The measuring engine: it measures one series in one process. It imports no other room, and torch only in functions.

Other rooms import it for its names, its telemetry and its statistics. Suites import it to define benchmarks.

    accuracy.py         error figures of an output, tolerances
    asv_type.py         asv's benchmark types: rounds, errors and figures of compiled code
    audit.py            was what was timed what was checked: fresh inputs, known and new ones timed in pairs
    benchmark.py        the asv classes behind `benchmark`: set-up, checks, one round
    cases.py            names of test cases, implementations, devices
    ceilings.py         what a machine can do at most: bandwidths, FLOP/s, launches
    definition.py       define a benchmark: `benchmark`, `native`, `module`, `normal`
    device_figures.py   one tracked number for each ceiling. Sizes of caches as seen
    documents.py        JSON that may be damaged: a document, or one line that says what is wrong
    file_problem.py     a public problem as a problem of a suite
    gate.py             the quiet-core filter, and the gauges beside the samples
    gpu.py              NVIDIA's driver: description, clocks, watching a GPU during a round
    implementations.py  eager, compile, modules of a build, bound to inputs
    limits.py           times in which the machine cannot have done the work, refused
    originals.py        the functions that a round depends on, before a kernel could replace them
    problem_file.py     the Problem of a user's file, checked, on a device
    problem_formats.py  the four forms of public problems, each as a Problem class
    problem.py          what a kernel computes: test cases, reference, cost
    reported.py         what the operating system knows of the machine and of this process
    sampling.py         one round: warm-up, batch, samples, estimate
    server.py           a server for asv: forks one process, which measures all series of a GPU
    spool.py            files that measuring processes leave below .asv/
    statistics.py       trimmed mean, half-width, autocorrelation, long blocks
    stopping.py         stopping rules, the hash of a method
    suite.py            the package of benchmarks: kernels, problems, series
    telemetry.py        one JSON line per round
    timers.py           seconds per call: host's clock, CUDA events, graphs
    timing.py           how a method is timed: decorators, choice of timer, cold caches
    under_test.py       what a build made: its libraries, and the figures of its code
    user_file.py        a user's Python file, imported with its neighbours
    workloads.py        what ceilings are measured with: streams, products, multiply-adds
"""
