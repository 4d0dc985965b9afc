"""The measuring engine: it measures one series in one process, and writes one line a round.

It imports the leaves, and torch only in functions. Every other room may import it.

    gpu.py         NVIDIA's driver: description, clocks, watching a GPU during a round
    process_state.py  settings of the process, PyTorch's too, put back where code changed one
    quiet.py       the quiet-core filter, and the gauges beside the samples
    reported.py    what the operating system knows of the machine and of this process
    sampling.py    one round: warm-up, batch, samples, estimate
    server.py      a server for asv: forks the processes that measure, and what none hands on to the next
    spool.py       files that measuring processes leave below .asv/
    statistics.py  trimmed mean, half-width, autocorrelation, long blocks
    stopping.py    stopping rules, the hash of a method
    telemetry.py   one JSON line per round
    timers.py      seconds per call: host's clock, CUDA events, graphs
    timing.py      how a method is timed: decorators, choice of timer, cold caches
"""
