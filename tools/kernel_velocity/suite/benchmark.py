"""The asv classes behind `definition.benchmark`: two axes, checked before and after timing, timed by rounds.

A class has a problem and a device. Asv discovers `<kernel>.<Device>.time_hot`, `.time_cold`,
`.track_max_error`, the figures of the compiled code (`compiled.figure`, `gpu_sources`) and the counts of its calls
(`callgrind`).
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from pathlib import Path
from time import perf_counter, time
from typing import Any, ClassVar

from kernel_velocity import processes
from kernel_velocity.counts import c_call, callgrind, compiled, machine_code
from kernel_velocity.counts.callgrind import Execution
from kernel_velocity.counts.gpu_figures import Compiled
from kernel_velocity.counts.gpu_sources import GpuFile
from kernel_velocity.engine import process_state, quiet, spool, timing
from kernel_velocity.engine.gpu import GpuWatch, uuid, with_clocks
from kernel_velocity.engine.quiet import Gate
from kernel_velocity.engine.reported import HostActivity, activity, read_counters, threads
from kernel_velocity.engine.sampling import RoundResult, measure
from kernel_velocity.engine.server import is_shared
from kernel_velocity.engine.stopping import from_environment
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.engine.timers import Call, CudaGraphTimer, Timer
from kernel_velocity.files import replace_text
from kernel_velocity.machine import limits
from kernel_velocity.machine.limits import Work
from kernel_velocity.names import (
    BY_COMPILER,
    CONTROLS,
    COUNTED_ON,
    COUNTS,
    FIGURES,
    MIX,
    NATIVE,
    TARGETS,
    counted_case,
    dtype_of,
    is_gpu,
)
from kernel_velocity.problem import null_answers
from kernel_velocity.problem.accuracy import in_words
from kernel_velocity.problem.implementations import Bound, Module, bind, check_device
from kernel_velocity.problem.problem import Inputs, Problem, TestCase, as_tensor, outputs_of
from kernel_velocity.processes import variable
from kernel_velocity.suite import packages
from kernel_velocity.suite.alone import APART_TURNS, AloneCalls, ApartError
from kernel_velocity.suite.audit import FreshInputs, audit, check_finished, check_kinds, wait_for_threads
from kernel_velocity.suite.memory import checksums, layout_of, unlike_reference
from kernel_velocity.suite.originals import ORIGINALS, ReplacedFunctionError
from kernel_velocity.suite.under_test import (
    ARTEFACTS,
    build_info,
    check_package,
    find_info,
    is_imported,
    root_folder,
    with_cuda,
)
from kernel_velocity.unproven import FLAG, KINDS

CHECK_STEP = 97  # where an output has all bits of one that was checked in full, one in 97 results is checked again
SCALARS = "scalar_registers"  # which only AMD's GPUs have
LAUNCH = secrets.token_hex(3)  # drawn at import, so that the children of one forkserver share it


class WrongResultError(AssertionError):
    """An implementation's output is not what the reference computes."""


class _Cost:
    """A cost of one call by case, computed when it is first read: sizes of tensors may take .3 s of imports."""

    def __init__(self, method: str) -> None:
        self._method = method

    def __get__(self, _: object, owner: Any) -> dict[str, int]:
        return _costs(owner, self._method)


@cache
def _costs(owner: Any, method: str) -> dict[str, int]:
    problem = owner.problem
    cost: Callable[[TestCase], int | None] = getattr(problem, method)
    tests = [*problem.generate_test_cases(), *map(problem.test_case, problem.counts)]
    return {test["name"]: value for test in tests if (value := cost(test)) is not None}


class FiguresBenchmark:
    """The code of one kernel for one device, not timed. Asv instantiates the subclasses."""

    problem: Problem
    device: ClassVar[str]
    targets: ClassVar[dict[str, tuple[str, ...]]]  # of the compilers, by implementation
    figure_params: ClassVar[list[list[str]]]  # of figures of the compiled code: a case is a target of the compiler
    count_params: ClassVar[list[list[str]]]  # of counts of calls: the CPU's instruction set is part of a case
    param_names: ClassVar[list[str]] = ["implementation", "case"]
    version: ClassVar[str] = "1"  # raise it on purpose: asv forgets the results of another version
    timeout: ClassVar[float] = 120.0  # s; the plainest matmul needs 25 at its largest case, compiling a package as much

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "problem"):
            return  # a base
        problem = cls.problem
        problem.device = cls.device
        describes_itself = isinstance(problem.functions.get(NATIVE), Module)  # in build-info.json
        targets = {NATIVE: TARGETS[cls.device]} if describes_itself else {}
        if cls.device == "cuda":
            targets |= {name: tuple(source.architectures) for name, source in problem.gpu.items()}
        cls.targets = targets
        cls.figure_params = [[*targets], list(dict.fromkeys(target for of in targets.values() for target in of))]
        cls.count_params = [list(problem.counted), [counted_case(case) for case in problem.counts]]
        for name, unit in FIGURES[cls.device].items() if targets else ():
            if name == SCALARS and not any(map(_has_scalars, cls.figure_params[1])):
                continue
            method = tracked(name, unit, partial(_figure, name), " of the compiled code for a target")
            method.version = f"{cls.version}-{machine_code.METHOD}" if name in MIX else cls.version
            setattr(cls, f"track_{name}", method)
        for name, unit in COUNTS.items() if cls.device == "cpu" and all(cls.count_params) else ():
            method = tracked(name, unit, partial(_count, name), ", as callgrind counts it")
            method.version = f"{cls.version}-{callgrind.METHOD}"
            setattr(cls, f"track_{name}", method)

    @classmethod
    def figures_of_code(cls) -> Iterator[tuple[str, tuple[str, str], str]]:
        """Yield the figures and counts of the kernel's code: (name of FIGURES or COUNTS, parameters, version)."""
        for name in FIGURES[cls.device]:
            if (method := getattr(cls, f"track_{name}", None)) is not None:
                for implementation, targets in cls.targets.items():
                    for target in targets if name != SCALARS else filter(_has_scalars, targets):
                        yield name, (implementation, target), method.version
        for name in COUNTS:
            if (method := getattr(cls, f"track_{name}", None)) is not None:
                for implementation, case in itertools.product(*cls.count_params):
                    yield name, (implementation, case), method.version

    def code(self, implementation: str, architecture: str) -> Compiled:
        """Return what a compiler made of an implementation for a GPU's architecture.

        Raises:
            NotImplementedError: the build has no such code, or it is not compiled for this one: n/a.
        """
        check_package(os.environ)
        source = self.problem.gpu.get(implementation)
        named = os.environ.get(ARTEFACTS)
        folder = None if named is None else with_cuda(Path(named))
        if source is None:
            names = compiled.functions(build_info(), str(self.problem.kernel), architecture)
            info = None if folder is None else find_info(folder)
            if info is None or not names:
                raise NotImplementedError("the build of this commit has no such code")
            source, folder = GpuFile("*.so", names, (architecture,)), info.parent
        if architecture not in source.architectures:
            raise NotImplementedError(f"{implementation} is not compiled for {architecture}")
        if folder is None:
            raise NotImplementedError(f"nothing is built here: {ARTEFACTS} names no folder")
        made: Compiled = source.compiled(folder, architecture, _cache() / "counts")
        return made

    def count(self, implementation: str, case: str) -> Execution:
        """Return what one call of an implementation executes on the CPU in one thread.

        Args:
            case: one of the problem's `counts`, without an instruction set.

        Raises:
            NotImplementedError: it cannot be counted here: n/a.
            CountError: callgrind saw nothing of it.
            WrongResultError: its output is wrong.
        """
        callgrind.check()
        check_package(os.environ)
        timing.prepare_torch("cpu")
        problem = self.problem
        inputs: Inputs = problem.test_case(case)["create_inputs"]()
        with variable("KV_THREADS", "1"):
            bound = bind(implementation, problem, case, inputs, packages.folder())
        outputs = outputs_of(bound.output())
        call = c_call.read(bound.c_call or bound.call, map(as_tensor, inputs), map(as_tensor, outputs))
        bound.poison()
        bound.call()
        right, details = problem.verify_result(problem.expected(*inputs), bound.output())
        if not right:
            raise WrongResultError(f"{problem.name} {implementation} {case} is wrong: {in_words(details)}")
        return callgrind.count(call, _cache() / "counts")


class _KernelBenchmark(FiguresBenchmark):
    """One kernel on one device. Asv instantiates the subclasses."""

    params: ClassVar[list[list[str]]]
    cold_params: ClassVar[list[list[str]]]  # of time_cold: what lies far beyond the caches is cold anyway
    error_params: ClassVar[list[list[str]]]  # of track_max_error: the cases of tier core
    # Cost of one call by case, stored in benchmarks.json by our benchmark type.
    flops = _Cost("get_flops")
    bytes = _Cost("get_bytes")
    unfused_bytes = _Cost("get_unfused_bytes")
    footprints = _Cost("get_footprint")  # bytes that a call touches; not stored

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        problem = cls.problem
        implementations = list(problem.implementations)
        cls.params = [implementations, [test["name"] for test in problem.generate_test_cases()]]
        core = problem.core.get(cls.device, cls.params[1])
        cls.cold_params = [implementations, list(problem.cold.get(cls.device, core))]
        cls.error_params = [implementations, list(core)]

    def setup(self, implementation: str, case: str) -> None:
        """Make inputs, bind the implementation, check its output against the reference.

        Raises:
            NotImplementedError: n/a here.
            WrongResultError: the output is wrong. It is never timed.
            WrongPackageError: the package `kernels` is not of the commit under test.
        """
        self._began, self._threads = time(), threads()  # now: a kernel could raise KV_THREADS
        self._children = processes.children()
        check_device(implementation, self.problem)
        check_package(os.environ)
        timing.prepare_torch(self.device)
        # Where no code of a commit runs, in the process of a control, nothing is audited: that took 5% of its round
        self._is_control = implementation in CONTROLS and implementation not in self.problem.functions
        is_apart = self._is_control and not is_shared(os.environ, self.device) and not is_imported(os.environ)
        if not is_apart:
            ORIGINALS.note(self.problem)
        timing.prepare(self.device, os.environ)
        self._state = None if is_apart else process_state.State()
        test = self.problem.test_case(case)
        self._inputs: Inputs = test["create_inputs"]()
        self._fresh = None if is_apart else FreshInputs(self._inputs, test["create_inputs"], os.environ)
        self._bound: Bound = bind(implementation, self.problem, case, self._inputs, packages.folder())
        self._noted = self._own_functions()
        self._bound.poison()
        self._allocates = self._bound.output() is None  # poisoning forgets an output that each call allocates
        self._bound.call()
        self._check_whole(implementation, case)

    def _unproven_kinds(self, case: str) -> list[str]:
        """Return the kinds of null answers that the problem would take for the output of the last call.

        They are tried on some of its rows where it is large.
        """
        problem, inputs, output = self.problem, self._inputs, self._bound.output()
        drawn = null_answers.other_inputs(self.problem.test_case(case)["create_inputs"], inputs)
        if (step := null_answers.step_for(output, CHECK_STEP)) > 1:
            drawn = None if drawn is None else problem.subset(drawn, output, step)[0]
            inputs, output = problem.subset(inputs, output, step)
        others = None if drawn is None else problem.expected(*drawn)
        expected = problem.expected(*inputs)  # last: a public problem verifies for the last inputs
        passed = null_answers.unproven_by_itself(problem, inputs, expected, output, others)
        return list(dict.fromkeys(answer.kind for answer in passed))

    def time_hot(self, implementation: str, case: str) -> None:
        """Call the implementation once, caches warm. The benchmark type times this by rounds."""
        self._bound.call()

    def time_cold(self, implementation: str, case: str) -> None:
        """Call the implementation once, caches overwritten before."""
        self._bound.call()

    def track_max_error(self, implementation: str, case: str) -> float:
        """Return the largest error of all results of the call that `setup` made (`max_error` in `accuracy.compare`).

        Each is absolute or relative, whichever is smaller. Of integers absolute.

        Raises:
            NotImplementedError: the problem gives none: n/a.
            WrongResultError: a result is wrong that `setup`, which checks 1% once a commit is known, did not see.
        """
        error = self._check(implementation, case, 1).get("max_error")
        if error is None:
            raise NotImplementedError("the problem's verify_result gives no max_error")
        return float(error)

    def measure(self, name: str, implementation: str, case: str) -> dict[str, Any]:
        """Measure one round of the method that a series' name ends in. Return it in asv's form, append its telemetry.

        Raises:
            WrongResultError: the output is wrong after timing.
            AuditError, ReplacedFunctionError: what was timed is not what was checked.
            ImpossibleError: the machine cannot do the work in that time.
        """
        cold = timing.is_cold(name)
        call = self._bound.call  # and not the method: a Python function around it takes time
        timer = timing.timer_of(self.device, cold=cold)
        timing.pre_warm(from_environment(os.environ), self.device)
        began = time()
        single, check = self._single(timer, cold=cold), partial(self._check, implementation, case, CHECK_STEP)
        alone, waits = AloneCalls(self.device), list[float]()
        for turn in range(APART_TURNS):
            # Always from this line: Python code may know from where it is called
            latest = self._take(timer, self._gate(implementation, case, cold=cold))
            if turn == 0:
                result, watch, host = latest
            alone.row = max(alone.row, latest[0].estimate)
            wait_for_threads()
            if self._fresh is not None:
                self._fresh.check()
            try:
                waiting = None if cold else self._waiting(call, result.estimate)
                waits += [] if waiting is None else [waiting]
                check_finished(alone.row, waits)
                audit_flags = (
                    ()
                    if self._is_control or self._fresh is None
                    else audit(
                        self._bound,
                        self._fresh,
                        check,
                        timer=single,
                        estimate=result.estimate,
                        overhead=result.overhead,
                        device=self.device,
                        alone=alone,
                        threads=self._threads,
                        allocates=self._allocates,
                    )
                )
                break
            except ApartError:
                if turn == APART_TURNS - 1:
                    raise
        changes = {} if self._state is None else self._state.put_back()
        if self._fresh is not None:
            ORIGINALS.check()
        if self._noted != self._own_functions():
            raise ReplacedFunctionError("code of the kernel replaced a function of the benchmark or of its bound call")
        raised = {
            "contended": host.contended,
            "crowded": self.device == "cpu" and (host.crowds(self._threads) or bool(processes.left(self._children))),
        }
        flags = (
            *result.flags,
            *watch.flags,
            *audit_flags,
            *self._unproven,
            *(flag for flag, is_raised in raised.items() if is_raised),
        )
        fields = vars(result) | {
            "flags": tuple(dict.fromkeys((*flags, *self._check_limits(case, result.estimate, cold=cold))))
        }
        clocks = fields.pop("clocks")
        if changes.keys() - set(process_state.HARMLESS):  # under other settings PyTorch's pace is not the machine's
            fields["control_gauge"] = None
        record = Round(
            benchmark=name,
            params=(implementation, case),
            time=began,
            setup=began - self._began,
            load=host.load,
            switches=host.switches,
            steal=host.steal,
            waiting=waiting,
            gpu=with_clocks(watch.activity, clocks),
            energy=watch.energy,
            method=timing.method(os.environ),
            launch=LAUNCH,
            **fields,
        )
        root, where = root_folder(os.environ), spool.location(os.environ)
        if where is None:
            print("kernel-velocity: asv names no commit here, so no telemetry is kept", file=sys.stderr)  # noqa: T201
        else:
            spool.append(spool.spool_path(root, *where), record)
        return {"samples": [result.estimate], "number": 1}

    def _take(
        self, timer: Timer, gate: AbstractContextManager[Gate | None]
    ) -> tuple[RoundResult, GpuWatch, HostActivity]:
        """Take the samples of a round. Return it, and what the GPU and the host did beside it."""
        before, clock = read_counters(), perf_counter()
        with GpuWatch(uuid() if self.device == "cuda" else None) as watch, gate as quiet:
            result = measure(self._bound.call, timer, from_environment(os.environ), watch.look, quiet)
        return result, watch, activity(before, read_counters(), perf_counter() - clock)

    @property
    def call(self) -> Call:
        """The bound call that `time_hot` makes, without arguments. There is one after `setup`."""
        return self._bound.call

    def new_timer(self, flush: Call | None = None) -> Timer:
        """Return the timer that measures this device, hot without flush (asv means something else by `timer`)."""
        return timing.plain(self.device, flush)

    def _own_functions(self) -> tuple[object, ...]:
        """Return the bound call's functions, and the names of its class's methods that this instance replaces."""
        methods = {name for kind in type(self).__mro__ for name, value in vars(kind).items() if callable(value)}
        return (*vars(self._bound).values(), *sorted(methods & set(vars(self))))

    def _single(self, timer: Timer, *, cold: bool) -> Timer:
        """Return the timer of one call at a time: that of the samples, or events in place of a CUDA graph."""
        if not isinstance(timer, CudaGraphTimer):
            return timer
        return self.new_timer(timing.flush(self.device) if cold else None)

    def _gate(self, implementation: str, case: str, *, cold: bool) -> AbstractContextManager[Gate | None]:
        """Return the gate of a round: on the CPU only, as NVML tells a GPU's pace.

        Beside hot calls it times a control, unless they are a control's own. A cold call's flush takes longer than all
        of them.
        """
        if self.device != "cpu":
            return nullcontext()
        control = None
        if implementation not in CONTROLS and not cold:
            control = bind(CONTROLS[0], self.problem, case, self._inputs, packages.folder()).call
        working_set = math.inf if cold else self.footprints.get(case, 0)
        return quiet.on_cpu(working_set, _cache() / "gauge", os.environ, control)

    def _waiting(self, call: Call, estimate: float) -> float | None:
        """Return the s that a caller waits for a hot call beyond the device's own time. None where that is no other."""
        if self.device != "cuda" or timing.chosen(os.environ) == "sync":
            return None
        waited = timing.wait(call, self.device, estimate)
        return None if waited is None else waited - estimate

    def _check_limits(self, case: str, estimate: float, *, cold: bool) -> tuple[str, ...]:
        """Return the flags of `limits.check`."""
        footprint, dtype = self.footprints.get(case), dtype_of(case)
        work = Work(flops=self.flops.get(case), bytes=self.bytes.get(case), footprint=footprint, dtype=dtype)
        return limits.check(work, estimate, self.device, self._threads, _cache() / "limits", cold=cold)

    def _check_whole(self, implementation: str, case: str) -> None:
        """Check all results of the first call.

        By the reference, unless sums over all bits are those of an output that it found right at this commit. The first
        time null answers are tried against the check, too.
        """
        marker = _marker(self.problem, self.device, implementation, case)
        key, right, kinds = _right_before(marker)
        outputs = outputs_of(self._output())
        sums = repr([checksums(outputs, key), layout_of(outputs)])
        self._check(implementation, case, CHECK_STEP if sums == right else 1)
        if kinds is None:
            kinds = self._unproven_kinds(case)
        if marker is not None and sums != right:
            marker.parent.mkdir(parents=True, exist_ok=True)
            replace_text(marker, json.dumps([key, sums, kinds]))
        self._unproven = tuple(f"{FLAG}{kind}" for kind in kinds if kind in KINDS)

    def _check(self, implementation: str, case: str, step: int) -> dict[str, Any]:
        """Return the error figures of one in `step` results of the last call, drawn anew.

        Raises:
            WrongResultError: one is wrong, or an output is a view or of a dtype unlike the reference's.
        """
        whole = self._output()
        inputs, output = self.problem.subset(self._inputs, whole, step) if step > 1 else (self._inputs, whole)
        expected = self.problem.expected(*inputs)
        right, details = self.problem.verify_result(expected, output)
        why = "" if right else in_words(details)
        if right and self._allocates and implementation != CONTROLS[0]:  # the reference itself
            why = unlike_reference(self.problem, self._inputs, whole, inputs, expected)
        if why:
            drawn = "" if output is whole else " in results drawn at random"
            raise WrongResultError(
                f"{self.problem.name} {implementation} {case} is wrong{drawn}: {why}{self._fresh or ''}"
            )
        return details

    def _output(self) -> Any:
        """Return the outputs of the last call, finished. AuditError for one that is no plain tensor."""
        output = self._bound.output()
        check_kinds(outputs_of(output))
        if self.device == "cuda":
            import torch  # noqa: PLC0415

            torch.cuda.synchronize()
        return output


def tracked(name: str, unit: str, value: Callable[..., float | None], what: str) -> Any:
    """Return the method `track_<name>` of an asv class. `value` gets the instance and asv's parameters."""

    def track(self: Any, *params: Any) -> float | None:
        return value(self, *params)

    track.__name__ = track.__qualname__ = f"track_{name}"
    track.__doc__ = f"Return {name.replace('_', ' ')}{what}."
    vars(track).update(unit=unit, pretty_source=track.__doc__)  # asv stores the one, and its pages show the other
    return track


def axes_of(owner: Any, name: str) -> list[list[str]]:
    """Return the parameters of a benchmark `track_<name>` of an asv class: implementations, cases or targets."""
    axes: list[list[str]] = getattr(
        owner, "error_params" if name == "max_error" else "count_params" if name in COUNTS else "figure_params"
    )
    return axes


def is_of_code(problem: Problem, name: str, implementation: str, target: str) -> bool:
    """Return whether a figure is read from the code itself. Else build-info.json has it."""
    return implementation in problem.gpu or (is_gpu(target) and name not in BY_COMPILER)


def _figure(name: str, bench: FiguresBenchmark, implementation: str, target: str) -> int:
    if is_of_code(bench.problem, name, implementation, target):
        return bench.code(implementation, target).figure(name)
    return compiled.figure(build_info(), str(bench.problem.kernel), name, target)


def _has_scalars(target: str) -> bool:
    return target.startswith("gfx")


def _count(name: str, bench: FiguresBenchmark, implementation: str, case: str) -> int:
    return bench.count(implementation, case.removesuffix(f"-{COUNTED_ON}")).counts[name]


def _cache() -> Path:
    """Return the folder of what is made once: references, marks of checked outputs."""
    return root_folder(os.environ) / ".asv" / "cache"


def _marker(problem: Problem, device: str, implementation: str, case: str) -> Path | None:
    """Return the file that marks an output as checked in full at this commit. None where asv names no commit."""
    where = spool.location(os.environ)
    if where is None:
        return None
    # Another reference or tolerance checks in full again.
    source = hashlib.sha256(Path(inspect.getfile(type(problem))).read_bytes()).hexdigest()[:8]
    return _cache().joinpath("checked", *where, f"{problem.name}-{device}-{implementation}-{case}-{source}")


def _right_before(marker: Path | None) -> tuple[int, str, list[str] | None]:
    """Return the key and the sums of an output that was right, and the kinds of null answers that its check takes.

    Where there is none a new key, "" and None.
    """
    try:
        key, sums, kinds = json.loads("[]" if marker is None else marker.read_text(encoding="utf-8"))
        return int(key), str(sums), list(kinds)
    except (OSError, ValueError, TypeError):
        return secrets.randbits(63), "", None


ORIGINALS.note()
