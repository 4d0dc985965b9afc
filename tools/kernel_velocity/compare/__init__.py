"""The working tree live: implementations of a problem side by side, without git history (`kv compare`).

It may import every room but `scaffold`. No other room imports it.

    command.py          `kv compare`: options, jobs, printing and writing, exit status
    api.py              `compare` and `time_function`, for the command and for scripts
    settings.py         how it is measured: rounds, stopping rule, presets of published work, PyTorch's settings
    implementations.py  a problem and its implementations, by name or from files. Which of them, on which cases
    solutions.py        a user's solution, bound to inputs, its outputs between guards
    job.py              problems on test cases: implementations take turns in rounds. What they ran on
    subject.py          one implementation on a test case: verified, timed in rounds, verified again
    apart.py            one in a process of its own, forked for a test case
    isolation.py        the process that measures, and its journal
    profile.py          PyTorch's profiler around an implementation
    nsight.py           Nsight Compute around an implementation
    result.py           the values of a comparison, and their JSON, also Google Benchmark's
    table.py            the comparison in a terminal
"""
