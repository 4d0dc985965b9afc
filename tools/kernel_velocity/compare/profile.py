"""What PyTorch's profiler sees of one implementation: a table of operations, and a trace file for a viewer.

The native kernels are called through ctypes, which the profiler does not see: each call is a region of its own, named
after the implementation, so that it has a line on the CPU; a CUDA kernel is seen as such. A profiled call is slower
than a timed one: the table says where the time goes, not how much it is.

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_velocity import units
from kernel_velocity.errors import UsageError
from kernel_velocity.harness.implementations import Bound
from kernel_velocity.harness.problem import Inputs, Problem
from kernel_velocity.harness.timers import Call

Binder = Callable[[Problem, str, Inputs], Bound]  # problem, name of a test case, its inputs

CALLS = 10
WARM_UPS = 3  # a first call compiles, allocates, loads modules
LINES = 15  # of the table
COLUMN = 60  # characters of an operation's name: the names of CUDA kernels have hundreds
# Open with https://ui.perfetto.dev or chrome://tracing
SUFFIX = ".trace.json"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What was seen of some calls.

    Attributes:
        implementation, case: whose calls they were.
        table: the costliest operations, as text, over all calls.
        trace: file in the format of Chrome's trace viewer.
        calls: how many there were, warm-up left out.
    """

    implementation: str
    case: str
    table: str
    trace: Path
    calls: int

    def text(self) -> str:
        """Return the table under a line that says what it is."""
        head = f"{self.implementation} on {self.case}, {units.count(self.calls, 'call')}; trace: {self.trace}"
        return f"{head}\n{self.table}"


def profile(
    problem: Problem, implementation: str, case: str, folder: Path, *, bind: Binder, calls: int = CALLS
) -> Profile:
    """Profile an implementation on a test case.

    Args:
        problem: what is computed; its device says which activities are recorded.
        implementation: what the table calls it.
        case: name of the test case.
        folder: where the trace is written; made where it does not exist.
        bind: binds the implementation to the inputs.
        calls: how many are profiled.

    Raises:
        UsageError: no PyTorch, no such device, or fewer than one call.
        KeyError: no such test case.
        NotImplementedError: the implementation does not exist here: n/a.
    """
    found = problem.test_case(case)
    name = "-".join((problem.name, problem.device, case, implementation))
    trace = folder / (re.sub(r"[^\w.-]", "_", name, flags=re.ASCII) + SUFFIX)
    require_torch(problem.device)
    bound = bind(problem, case, found["create_inputs"]())
    table = profile_call(bound.call, device=problem.device, trace=trace, name=implementation, calls=calls)
    return Profile(implementation=implementation, case=case, table=table, trace=trace, calls=calls)


def profile_call(call: Call, *, device: str, trace: Path, name: str = "call", calls: int = CALLS) -> str:
    """Profile a call: write its trace, return the table of its costliest operations.

    Args:
        call: takes no arguments.
        device: "cpu" or "cuda".
        trace: file to be written.
        name: of the region around every call.
        calls: how many are profiled, after WARM_UPS that are not.

    Raises:
        UsageError: no PyTorch, no such device, or fewer than one call.
    """
    if calls < 1:
        raise UsageError(f"--profile of {calls} calls: at least 1 is wanted")
    torch = require_torch(device)
    profiler = importlib.import_module("torch.profiler")
    synchronise: Call = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    activities = [profiler.ProfilerActivity.CPU]
    activities += [profiler.ProfilerActivity.CUDA] if device == "cuda" else []
    for _ in range(WARM_UPS):
        call()
    synchronise()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the profiler's words about itself are of no use to who asked for a table
        with profiler.profile(activities=activities) as found:
            for _ in range(calls):
                with profiler.record_function(name):
                    call()
            synchronise()
    _write_trace(found, trace)
    sort = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    events = found.key_averages()
    return str(events.table(sort_by=sort, row_limit=LINES, max_name_column_width=COLUMN)).rstrip()


def require_torch(device: str) -> Any:
    """Return PyTorch.

    Raises:
        UsageError: it is not installed, or sees no such device.
    """
    try:
        torch = importlib.import_module("torch")  # the measured half's: only a live command touches it, and lazily
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError("PyTorch is not installed, and is what was to be looked into: see README, PyTorch") from None
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("PyTorch sees no CUDA device: use --device cpu, or a machine with a GPU")
    return torch


def _write_trace(found: Any, trace: Path) -> None:
    """Write the trace through a temporary file; the profiler takes its format from the ending."""
    trace.parent.mkdir(parents=True, exist_ok=True)
    temporary = trace.with_name(f".new-{trace.name}")
    found.export_chrome_trace(str(temporary))
    temporary.replace(trace)
