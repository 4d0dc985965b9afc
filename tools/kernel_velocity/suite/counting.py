"""Count calls of a build, in a process of its own, because each build has its own modules.

    python -P -m kernel_velocity.suite.counting FOLDER ANSWERS CALLS

FOLDER is the suite's, CALLS a JSON list of the fields of `Call` and `Output`. The file ANSWERS gets a JSON line
before each call, {"begins": number}, and one after it: {"counts": {name: number}}, {"unavailable": why}, {"failed":
why}. Of GPU code, whose case is an architecture, the counts are its figures. `details`, `occupancies` and `missing` are
those of `gpu_figures.Compiled`. Of an output the count is its error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from kernel_velocity.counts import compiled
from kernel_velocity.engine.server import ProcessState, is_shared
from kernel_velocity.names import COUNTED_ON, NATIVE, TARGETS, counted_case, is_gpu
from kernel_velocity.problem.user_file import in_one_line
from kernel_velocity.processes import end_with_parent
from kernel_velocity.suite.suite import Suite

ERROR = "max_error"  # of a call, in place of counts


class Call(NamedTuple):
    """What is counted."""

    kernel: str
    implementation: str
    case: str  # without an instruction set. Of GPU code the architecture

    @property
    def of_series(self) -> str:
        """The case of the series that keep what is counted."""
        return self.case if is_gpu(self.case) else counted_case(self.case)


class Output(NamedTuple):
    """What a call computes, whose largest error is wanted."""

    kernel: str
    implementation: str
    case: str
    device: str  # "cpu" or "cuda"


def calls(suite: Suite, builds: Sequence[Mapping[str, Any]] | None = ()) -> list[Call]:
    """Return the calls that the definitions of a suite want counted, and the GPU code that they want read.

    Args:
        builds: what builds say of themselves (build-info.json). The GPU code that one describes is read, too. None:
            all that a build could describe.
    """
    kernels = suite.modules()
    benchmarks = {kernel: suite.figures(kernel, "cpu") for kernel in kernels}
    gpu = {kernel: getattr(suite.figures(kernel, "cuda"), "targets", {}) for kernel in kernels}
    described = [
        Call(kernel, NATIVE, target)
        for kernel in kernels
        for target in TARGETS["cuda"]
        if NATIVE in gpu[kernel]
        if builds is None or any(compiled.functions(info, kernel, target) for info in builds)
    ]
    defined = [
        Call(kernel, implementation, target)
        for kernel in kernels
        for implementation in getattr(getattr(suite.figures(kernel, "cuda"), "problem", None), "gpu", {})
        for target in gpu[kernel][implementation]
    ]
    return [*dict.fromkeys((*defined, *described))] + [
        Call(kernel, implementation, case.removesuffix(f"-{COUNTED_ON}"))
        for kernel, benchmark in benchmarks.items()
        if hasattr(benchmark, "track_instructions")
        for implementation in benchmark.count_params[0]
        for case in benchmark.count_params[1]
    ]


def answer(suite: Suite, call: Call | Output) -> dict[str, Any]:
    """Count a call. Return its line."""
    try:
        if isinstance(call, Output):
            benchmark = suite.benchmark(call.kernel, call.device)()
            benchmark.setup(call.implementation, call.case)
            return {"counts": {ERROR: benchmark.track_max_error(call.implementation, call.case)}}
        if is_gpu(call.case):
            made = suite.figures(call.kernel, "cuda")().code(call.implementation, call.case)
            rest = {"details": made.details, "occupancies": made.occupancies, "missing": made.missing}
            return {"counts": dict(made.figures), "code": made.code} | {name: dict(of) for name, of in rest.items()}
        execution = suite.figures(call.kernel, "cpu")().count(call.implementation, call.case)
        return {"counts": execution.counts, "code": execution.code}
    except NotImplementedError as error:
        return {"unavailable": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a kernel may raise anything
        return {"failed": in_one_line(error)}


def _import(suite: Suite, calls: Sequence[Call | Output]) -> None:
    """Import once what each forked process would import: .3 s of each."""
    if not all(is_gpu(call.case) for call in calls) and importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")
    for kernel in dict.fromkeys(call.kernel for call in calls):
        with suppress(Exception):  # each answer says why it cannot be imported
            suite.figures(kernel, "cpu")


def _is_shared(call: Call | Output) -> bool:
    return isinstance(call, Output) and is_shared(os.environ, call.device)


def _write(stream: TextIO, suite: Suite, call: Call | Output) -> None:
    stream.write(f"{json.dumps(answer(suite, call))}\n")


def _apart(work: Callable[[], object]) -> None:
    """Do work that runs a kernel in a forked process, so that it leaves nothing to the next. End as that one ends."""
    this = os.getpid()
    if (child := os.fork()) == 0:
        end_with_parent(this)
        work()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        os.kill(this, -status)
    elif status > 0:
        os._exit(status)


def main(argv: Sequence[str]) -> int:
    """Count the calls. Return 0."""
    folder, answers, wanted = argv
    suite = Suite(Path(folder))
    calls = [(Call if len(fields) == len(Call._fields) else Output)(*fields) for fields in json.loads(wanted)]
    _import(suite, calls)
    state = ProcessState() if any(map(_is_shared, calls)) else None
    with Path(answers).open("a", encoding="utf-8", buffering=1) as stream:
        for number, call in enumerate(calls):
            stream.write(f"{json.dumps({'begins': number})}\n")
            work = partial(_write, stream, suite, call)
            if is_gpu(call.case) or _is_shared(call):
                work()
            else:
                _apart(work)
            if state is not None:
                state.put_back()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
