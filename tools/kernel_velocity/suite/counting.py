"""Count calls of a build, for `kv gate --counts`: a process of its own, because each build has its own modules.

    python -P -m kernel_velocity.suite.counting FOLDER ANSWERS CALLS

FOLDER is the suite's, CALLS a JSON list of [kernel, implementation, case]. The file ANSWERS gets a JSON line before
each call, {"begins": number}, and one after it: {"counts": {name: number}}, {"unavailable": why}, {"failed": why}. Of
GPU code, whose case is an architecture, the counts are its figures. `details`, `occupancies` and `missing` are those of
`gpu_figures.Compiled`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernel_velocity.counts import compiled
from kernel_velocity.names import COUNTED_ON, NATIVE, TARGETS, is_gpu
from kernel_velocity.problem.user_file import in_one_line
from kernel_velocity.suite.suite import Suite


class Call(NamedTuple):
    """What is counted."""

    kernel: str
    implementation: str
    case: str  # without an instruction set. Of GPU code the architecture


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


def answer(suite: Suite, call: Call) -> dict[str, Any]:
    """Count a call. Return its line."""
    try:
        if is_gpu(call.case):
            made = suite.figures(call.kernel, "cuda")().code(call.implementation, call.case)
            rest = {"details": made.details, "occupancies": made.occupancies, "missing": made.missing}
            return {"counts": dict(made.figures)} | {name: dict(of) for name, of in rest.items()}
        return {"counts": suite.figures(call.kernel, "cpu")().count(call.implementation, call.case)}
    except NotImplementedError as error:
        return {"unavailable": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a kernel may raise anything
        return {"failed": in_one_line(error)}


def main(argv: Sequence[str]) -> int:
    """Count the calls. Return 0."""
    folder, answers, wanted = argv
    suite = Suite(Path(folder))
    with Path(answers).open("a", encoding="utf-8", buffering=1) as stream:
        for number, call in enumerate(json.loads(wanted)):
            stream.write(f"{json.dumps({'begins': number})}\n")
            stream.write(f"{json.dumps(answer(suite, Call(*call)))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
