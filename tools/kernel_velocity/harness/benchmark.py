"""The base class of the suite's asv classes: two axes, checked before timed, timed by rounds.

A subclass names its problem and its device; asv discovers `<kernel>.<Device>.time_hot`, `.time_cold`,
`.track_max_error`, and what the compilers made of the kernel (`build_figures`).
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import secrets
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter, time
from typing import Any, ClassVar

from kernel_velocity.harness import blocks, build_figures, cache, gate, timing
from kernel_velocity.harness.accuracy import in_words
from kernel_velocity.harness.cases import CONTROLS, IMPLEMENTATIONS, NATIVE, TARGETS
from kernel_velocity.harness.gate import Gate
from kernel_velocity.harness.gpu import GpuWatch, interval, uuid
from kernel_velocity.harness.implementations import Bound, bind, check_device
from kernel_velocity.harness.machine import activity, read_counters
from kernel_velocity.harness.problem import Inputs, Problem
from kernel_velocity.harness.regions import Region, Timed, timed
from kernel_velocity.harness.sampling import RoundResult, measure
from kernel_velocity.harness.spool import append, spool_path
from kernel_velocity.harness.stopping import from_environment
from kernel_velocity.harness.telemetry import GAUGES, Round
from kernel_velocity.harness.timers import Call, Timer
from kernel_velocity.harness.under_test import check_package, root_folder

CHECK_STEP = 97  # after the first full check of a commit, every 97th result is checked: about 1%
LAUNCH = secrets.token_hex(3)  # drawn at import, so that the children of one forkserver share it


class WrongResultError(AssertionError):
    """An implementation's output is not what the reference computes."""


class _KernelBenchmark:
    """One kernel on one device; asv instantiates the subclasses."""

    problem: Problem
    device: ClassVar[str]
    params: ClassVar[list[list[str]]]
    cold_params: ClassVar[list[list[str]]]  # of time_cold: what lies far beyond the caches is cold anyway
    error_params: ClassVar[list[list[str]]]  # of track_max_error: the cases of tier core
    figure_params: ClassVar[list[list[str]]]  # of the compilers' figures: a case is what code was made for
    param_names: ClassVar[list[str]] = ["implementation", "case"]
    version: ClassVar[str] = "1"  # raise it on purpose: asv forgets the results of another version
    timeout: ClassVar[float] = 120.0  # s; the plainest matmul needs 25 at its largest case, compiling a package as much
    # Cost of one call by case, stored in benchmarks.json by our benchmark type.
    flops: ClassVar[dict[str, int]]
    bytes: ClassVar[dict[str, int]]
    footprints: ClassVar[dict[str, int]]  # bytes that a call touches, by case; not stored

    def __init_subclass__(cls) -> None:
        cls.problem.device = cls.device
        tests = cls.problem.generate_test_cases()
        cls.params = [list(IMPLEMENTATIONS), [test["name"] for test in tests]]
        names = cls.problem.core.get(cls.device, cls.params[1])
        cls.cold_params = [list(IMPLEMENTATIONS), list(cls.problem.cold.get(cls.device, names))]
        cls.error_params = [list(IMPLEMENTATIONS), list(names)]
        cls.figure_params = [[NATIVE], list(TARGETS[cls.device])]
        if cls.problem.kernel is not None:
            build_figures.add_methods(cls, cls.problem.kernel, cls.device)
        flops = {test["name"]: cls.problem.get_flops(test) for test in tests}
        cls.flops = {name: value for name, value in flops.items() if value is not None}
        traffic = {test["name"]: cls.problem.get_bytes(test) for test in tests}
        cls.bytes = {name: value for name, value in traffic.items() if value is not None}
        touched = {test["name"]: cls.problem.get_footprint(test) for test in tests}
        cls.footprints = {name: value for name, value in touched.items() if value is not None}

    def setup(self, implementation: str, case: str) -> None:
        """Make inputs, bind the implementation, check its output against the reference.

        Raises:
            NotImplementedError: n/a here.
            WrongResultError: the output is wrong; it is never timed.
            WrongPackageError: what would be measured is not the commit under test.
        """
        self._began = time()
        check_device(implementation, self.device)
        check_package(os.environ)
        prepare_torch(self.device)
        timing.prepare(self.device, os.environ)
        test = self.problem.test_case(case)
        self._inputs: Inputs = test["create_inputs"]()
        kept = _kept(os.environ)
        self._bound: Bound = bind(implementation, self.problem, case, self._inputs, kept / "aoti")
        marker = _marker(kept, self.problem, self.device, implementation, case)
        self._bound.poison()
        self._bound.call()
        self._check(implementation, case, 1 if marker is None or not marker.exists() else CHECK_STEP)
        if marker is not None:
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()

    def time_hot(self, implementation: str, case: str) -> None:
        """Call the implementation once, caches warm; the benchmark type times this by rounds."""
        self._bound.call()

    @cache.cold
    def time_cold(self, implementation: str, case: str) -> None:
        """Call the implementation once, caches overwritten before."""
        self._bound.call()

    def track_max_error(self, implementation: str, case: str) -> float | None:
        """Return the largest error of all results of the call that `setup` made (`max_error` in `accuracy.compare`).

        Each is absolute or relative, whichever is smaller; of integers absolute. None where the problem says none.

        Raises:
            WrongResultError: a result is wrong that `setup`, which looks at 1% once a commit is known, did not see.
        """
        return self._check(implementation, case, 1).get("max_error")

    def measure(self, name: str, implementation: str, case: str) -> dict[str, Any]:
        """Measure one round of the method that a series' name ends in; return it in asv's form, append its telemetry.

        Raises:
            WrongResultError: the output is wrong after timing.
            RegionError: the method does not time itself as it says.
        """
        rule = from_environment(os.environ)
        method = getattr(self, name.rpartition(".")[2])
        call = self._call_of(method, implementation, case)
        timer = timing.timer_of(self.device, method, self.region)
        timing.pre_warm(rule, self.device)
        began, before, clock = time(), read_counters(), perf_counter()
        with self._watch(name, implementation, case, began) as watch, self._gate(method, implementation, case) as quiet:
            result = measure(call, timer, rule, watch.look, quiet)
        host = activity(before, read_counters(), perf_counter() - clock)
        self._bound.poison()  # after, too: a kernel that is right only once is wrong
        self._bound.call()
        self._check(implementation, case, CHECK_STEP)
        contended = ("contended",) if host.contended and "contended" not in result.flags else ()
        record = Round(
            benchmark=name,
            params=(implementation, case),
            time=began,
            setup=began - self._began,
            load=host.load,
            switches=host.switches,
            steal=host.steal,
            waiting=self._waiting(method, call, result.estimate),
            gpu=watch.activity,
            method=timing.method(os.environ),
            launch=LAUNCH,
            flags=(*result.flags, *contended, *watch.flags, *self._warm(method, case, result.estimate)),
            **_shared_fields(result),
        )
        _spool(record, os.environ)
        blocks.keep(record, result.blocks, root_folder(os.environ), os.environ)
        return {"samples": [result.estimate], "number": 1}

    @property
    def call(self) -> Call:
        """The bound call that `time_hot` makes, without arguments; there is one after `setup`."""
        return self._bound.call

    @cached_property
    def region(self) -> Region:
        """The timed part of a method that times a region of itself (`regions`)."""
        return Region()

    def new_timer(self, flush: Call | None = None) -> Timer:
        """Return the timer that measures this device, hot without flush (asv means something else by `timer`)."""
        return timing.plain(self.device, flush)

    def _call_of(self, method: Any, implementation: str, case: str) -> Call:
        """Return what is timed of a method: of the base's own the bound call, without a Python function around it."""
        if method.__func__ in (_KernelBenchmark.time_hot, _KernelBenchmark.time_cold):
            return self._bound.call
        return partial(method, implementation, case)

    def _watch(self, name: str, implementation: str, case: str, began: float) -> GpuWatch:
        gpu = uuid() if self.device == "cuda" else None
        folder = root_folder(os.environ) / ".asv" / "clocks" / os.environ.get("ASV_COMMIT", "no-commit")
        return GpuWatch(gpu, interval(os.environ), folder / f"{name}-{implementation}-{case}-{began:.3f}.jsonl")

    def _working_set(self, method: Any, case: str) -> float:
        """Return the bytes that a call touches, as far as its caches are concerned."""
        return math.inf if cache.is_cold(method) else self.footprints.get(case, 0)

    def _gate(self, method: Any, implementation: str, case: str) -> AbstractContextManager[Gate | None]:
        """Return what lets samples through: on the CPU a gate; a GPU's pace is NVML's to tell.

        Beside hot calls it times a control, if they are of no control themselves; a cold call's flush takes longer
        than all of them.
        """
        if self.device != "cpu":
            return nullcontext()
        kept, control = _kept(os.environ), None
        if implementation not in CONTROLS and not cache.is_cold(method):
            control = bind(CONTROLS[0], self.problem, case, self._inputs, kept / "aoti").call
        return gate.on_cpu(self._working_set(method, case), kept / "gauge", os.environ, control)

    def _waiting(self, method: Any, call: Call, estimate: float) -> float | None:
        """Return the s that a caller waits for a hot call beyond the device's own time; None where that is no other."""
        if self.device != "cuda" or timing.chosen(os.environ) == "sync":
            return None
        if cache.is_cold(method) or timed(method) is not Timed.WHOLE:
            return None
        waited = timing.wait(call, self.device, estimate)
        return None if waited is None else waited - estimate

    def _warm(self, method: Any, case: str, estimate: float) -> tuple[str, ...]:
        """Return ("warm",) where a cold call moved its bytes faster than memory can."""
        moved = self.bytes.get(case)
        if moved is None or not cache.is_cold(method):
            return ()
        folder = _kept(os.environ) / "memory"
        return ("warm",) if cache.is_warm(moved / estimate, self.device, self.new_timer(), folder) else ()

    def _check(self, implementation: str, case: str, step: int) -> dict[str, Any]:
        """Return the error figures of every `step`-th result of the last call; WrongResultError where one is wrong."""
        output = self._bound.output()
        if self.device == "cuda":
            import torch  # noqa: PLC0415

            torch.cuda.synchronize()
        inputs = self._inputs
        if step > 1:
            inputs, output = self.problem.subset(inputs, output, step)
        right, details = self.problem.verify_result(self.problem.expected(*inputs), output)
        if not right:
            raise WrongResultError(f"{self.problem.name} {implementation} {case} is wrong: {in_words(details)}")
        return details


def _shared_fields(result: RoundResult) -> dict[str, Any]:
    names = ("estimate", "n", "batch", "warmup", "spent", "stop", "cv", "half_width", "autocorrelation", "drift")
    return {name: getattr(result, name) for name in (*names, "tick", "overhead", *GAUGES, "lost")}


def _kept(environ: Mapping[str, str]) -> Path:
    """Return the folder of what is made once and kept."""
    return root_folder(environ) / ".asv" / "cache"


def prepare_torch(device: str) -> None:
    """Set threads and the arithmetic of float32 for this process.

    Raises:
        NotImplementedError: torch or the device is missing.
    """
    try:
        import torch  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise NotImplementedError("PyTorch is not installed") from None
    torch.set_num_threads(int(os.environ.get("KV_THREADS") or 1))
    torch.set_grad_enabled(False)
    products = torch.backends.cuda.matmul
    products.allow_tf32 = False  # float32 products in float32, whatever the image's default
    # Of two bytes summed up in float32, as ours: by default cuBLAS may add the parts of a sum in the inputs' type.
    products.allow_fp16_reduced_precision_reduction = products.allow_bf16_reduced_precision_reduction = False
    if device == "cuda" and not torch.cuda.is_available():
        raise NotImplementedError("PyTorch sees no CUDA device")


def _marker(cache: Path, problem: Problem, device: str, implementation: str, case: str) -> Path | None:
    """Return the file that says that this was checked in full at this commit; None where asv names no commit."""
    environment, commit = os.environ.get("ASV_ENV_NAME"), os.environ.get("ASV_COMMIT")
    if not environment or not commit:
        return None
    # Another reference or tolerance checks in full again.
    source = hashlib.sha256(inspect.getsource(type(problem)).encode()).hexdigest()[:8]
    return cache / "checked" / environment / commit / f"{problem.name}-{device}-{implementation}-{case}-{source}"


def _spool(record: Round, environ: Mapping[str, str]) -> None:
    environment, commit = environ.get("ASV_ENV_NAME"), environ.get("ASV_COMMIT")
    if not environment or not commit:
        print("kernel-velocity: asv names no commit here, so no telemetry is kept", file=sys.stderr)  # noqa: T201
        return
    append(spool_path(root_folder(environ), environment, commit), record)
