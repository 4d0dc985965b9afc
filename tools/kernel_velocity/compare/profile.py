"""Run one implementation under PyTorch's profiler: a table of operations, and a trace file for a viewer.

The profiler does not see calls through ctypes, as of the native kernels. So each call is a region with the name of the
implementation, which has a line on the CPU. CUDA kernels have lines anyway. A profiled call is slower than a timed one:
the table says where the time goes, not how much it is.

In a script of your own:

    >>> import tempfile, torch
    >>> from pathlib import Path
    >>> from kernel_velocity.compare.profile import profile_call
    >>> x, folder = torch.rand(1000), Path(tempfile.mkdtemp())
    >>> table = profile_call(lambda: x.exp(), device="cpu", trace=folder / "exp.trace.json", name="mine")
    >>> [name for name in ("aten::exp", "mine") if name in table]
    ['aten::exp', 'mine']
    >>> (folder / "exp.trace.json").exists()
    True
"""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path
from typing import Any

from kernel_velocity import units
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.engine.timers import Call
from kernel_velocity.problem.problem import Problem

CALLS = 10
WARM_UPS = 3  # a first call compiles, allocates, loads modules
LINES = 15  # of the table
COLUMN = 60  # characters of an operation's name: the names of CUDA kernels have hundreds
TRACE_SUFFIX = ".trace.json"  # opened with https://ui.perfetto.dev or chrome://tracing


def profile(problem: Problem, implementation: str, case: str, folder: Path, bind: Bind) -> str:
    """Profile an implementation on a test case, and return the table under a title.

    Args:
        problem: what is computed, on the device whose activities are recorded.
        implementation: what the table calls it.
        case: name of the test case.
        folder: of the trace, made where it does not exist.
        bind: binds the implementation to the inputs.

    Raises:
        KeyError: no such test case.
        NotImplementedError: the implementation does not exist here: n/a.
    """
    name = "-".join((problem.name, problem.device, case, implementation))
    trace = folder / (re.sub(r"[^\w.-]", "_", name, flags=re.ASCII) + TRACE_SUFFIX)
    bound = bind(problem, case, problem.test_case(case)["create_inputs"]())
    table = profile_call(bound.call, device=problem.device, trace=trace, name=implementation)
    return f"{implementation} on {case}, {units.count(CALLS, 'call')}; trace: {trace}\n{table}"


def profile_call(call: Call, *, device: str, trace: Path, name: str = "call") -> str:
    """Profile a call: write its trace, return the table of its costliest operations over CALLS calls.

    Args:
        call: takes no arguments.
        device: "cpu" or "cuda".
        trace: file to be written.
        name: of the region around every call.
    """
    torch: Any = importlib.import_module("torch")
    profiler = importlib.import_module("torch.profiler")
    synchronise: Call = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    activities = [profiler.ProfilerActivity.CPU]
    activities += [profiler.ProfilerActivity.CUDA] if device == "cuda" else []
    for _ in range(WARM_UPS):
        call()
    synchronise()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its warnings are about itself
        with profiler.profile(activities=activities) as recorded:
            for _ in range(CALLS):
                with profiler.record_function(name):
                    call()
            synchronise()
    trace.parent.mkdir(parents=True, exist_ok=True)
    temporary = trace.with_name(f".new-{trace.name}")  # the profiler takes its format from the ending
    recorded.export_chrome_trace(str(temporary))
    temporary.replace(trace)
    sort = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    return str(recorded.key_averages().table(sort_by=sort, row_limit=LINES, max_name_column_width=COLUMN)).rstrip()
