"""One implementation on one test case: bind it, verify it, time rounds, verify it again, audit it.

All implementations share the inputs of a test case. One that changes them is wrong, and they are restored. The audit
uses inputs that the implementation has never seen.

The problem's own `verify_result` decides whether outputs are right, unless a tolerance is given. NaN or infinity where
none is expected is always wrong, and so is another shape.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from kernel_velocity import units
from kernel_velocity.compare import torch_state
from kernel_velocity.compare.isolation import ProcessJournal
from kernel_velocity.compare.result import Accuracy, TimedImplementation
from kernel_velocity.compare.settings import TimingSettings
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.engine import gpu, quiet, timing
from kernel_velocity.engine.reported import activity, read_counters
from kernel_velocity.engine.sampling import batch_for, measure
from kernel_velocity.engine.statistics import trimmed_mean
from kernel_velocity.engine.stopping import Stop, StoppingRule, without_burn_in
from kernel_velocity.engine.timers import Call, HostTimer, SyncTimer, Timer, TorchEvents
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.machine import limits
from kernel_velocity.problem import accuracy
from kernel_velocity.problem.implementations import Bound
from kernel_velocity.problem.problem import Inputs, Problem, ProblemError, outputs_of
from kernel_velocity.problem.problem_file import is_out_of_memory
from kernel_velocity.stats import speedup
from kernel_velocity.suite.audit import AuditError, FreshInputs, audit, check_kinds
from kernel_velocity.suite.benchmark import CHECK_STEP
from kernel_velocity.suite.originals import ORIGINALS
from kernel_velocity.suite.under_test import root_folder

SET_UP = "set up"  # a step of an implementation
FUNCTION_SAMPLES = 21  # of a whole function in each round; the median counts
FUNCTION_SECONDS = 0.1  # s that they may take; else there are FUNCTION_FEWEST
FUNCTION_FEWEST = 3

# The verdict under one tolerance: it does not hold where something else judged the output.
_VERDICT = (
    *("right", "why", "wrong", "first_wrong", "first_wrong_index", "first_expected", "first_actual"),
    *("rtol", "atol", "tolerance"),
)
_NEVER_RIGHT = ("nan", "infinite", "missing")  # counts of elements


class SharedInputs:
    """The tensors among the inputs of a test case, and copies of them as they were made."""

    def __init__(self, problem: Problem, inputs: Inputs) -> None:
        tensors = [value for value in inputs if hasattr(value, "data_ptr")]
        names = [str(entry["name"]) for entry in problem.parameters if entry["pointer"] and entry["const"]]
        if len(names) != len(tensors):
            names = [f"input {number}" for number in range(1, len(tensors) + 1)]
        self._tensors = [(name, tensor, tensor.clone()) for name, tensor in zip(names, tensors, strict=True)]

    def restore(self) -> str:
        """Restore changed inputs in place, their shapes too, and return their names, "" for none."""
        changed, same = [], partial(importlib.import_module("torch").allclose, rtol=0, atol=0, equal_nan=True)
        for name, tensor, before in self._tensors:
            if tensor.shape != before.shape or not same(tensor, before):
                changed.append(name)
                tensor.resize_(before.shape).copy_(before)
        return ", ".join(changed)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A test case set up, for all its implementations."""

    problem: Problem
    case: str
    inputs: Inputs
    fresh: FreshInputs  # new random inputs of the same case
    shared: SharedInputs
    expected: Any  # of the reference: a tensor, or several
    settings: TimingSettings
    journal: ProcessJournal


class Subject:
    """An implementation on a test case, and its results so far (`timed`)."""

    bound: Bound  # once it is set up

    def __init__(self, name: str, bench: Bench) -> None:
        self.name, self._bench, self._device = name, bench, bench.problem.device
        self.timed = TimedImplementation(implementation=name)
        self.tf32 = False  # whether float32 products on CUDA were allowed in TF32 while it was timed
        self._allocates = False  # whether each call allocates its outputs
        self._waits: list[float] = []  # s of the whole function, one per round

    @property
    def runs(self) -> bool:
        """Return whether it is timed."""
        return not self.timed.reason

    def set_up(self, bind: Bind) -> None:
        """Bind it, and verify what it writes to poisoned outputs."""
        self.timed.failed = self._bench.journal.death(self.name, self._bench.case)
        if self.runs:
            with self._attempt(SET_UP):
                self.bound = bind(self._bench.problem, self._bench.case, self._bench.inputs)
        if self.runs:
            self.verify("before timing")

    def verify(self, when: str) -> None:
        """Verify what a call writes to poisoned outputs. A wrong output is a failure, and no time counts."""
        with self._attempt(f"verified {when}"):
            self.bound.poison()
            self._allocates = self.bound.output() is None  # poisoning forgets an output that each call allocates
            self.bound.call()
            synchronize(self._device)
            if changed := self._bench.shared.restore():
                self.timed.failed = f"it changed its inputs: {changed} ({when})"
            elif outside := self.bound.beside():
                self.timed.failed = f"it wrote outside its outputs: {outside} ({when})"
            else:
                self.timed.accuracy = self._accuracy(self._bench.expected, self.bound.output())
                if wrong := wrong_outputs(self.timed.accuracy):
                    self.timed.failed = f"{wrong} ({when})"

    def audit(self) -> None:
        """Call it on new inputs (`suite.audit`). It fails if it is wrong there, or was faster before."""
        with self._attempt("audited"):
            timer = timing.plain(self._device)
            flags = audit(
                self.bound,
                self._bench.fresh,
                self._check,
                timer=timer,
                estimate=median(self.timed.estimates),
                overhead=timer.overhead(),
                device=self._device,
            )
            self._flag(flags)

    def _check(self) -> None:
        """Raise AuditError if about 1% of the outputs of the last call are not right."""
        output, problem = self.bound.output(), self._bench.problem
        synchronize(self._device)
        inputs, output = problem.subset(self._bench.inputs, output, CHECK_STEP)
        if wrong := wrong_outputs(self._accuracy(problem.expected(*inputs), output)):
            raise AuditError(f"{wrong}{self._bench.fresh}")

    def _accuracy(self, expected: Any, output: Any) -> tuple[Accuracy, ...]:
        check_kinds(outputs_of(output))
        return verify_outputs(self._bench.problem, expected, output, self._bench.settings.tolerance)

    def take_round(self, work: limits.Work) -> None:
        """Take one round, and the time of the whole function beside it. `work` is what a call does."""
        settings, timed = self._bench.settings, self.timed
        with self._attempt("timed"):
            measured = take_round(
                self.bound.call,
                settings.rule,
                self._device,
                working_set=work.footprint or 0.0,
                threads=settings.threads,
                warmups=settings.warmups,
            )
            folder = root_folder(os.environ) / ".asv" / "cache" / "limits"
            self._flag(
                (*measured.flags, *limits.check(work, measured.estimate, self._device, settings.threads, folder))
            )
            timed.rounds += (measured.samples,)
            timed.estimates += (measured.estimate,)
            timed.stops += (measured.stop,)
            # Without a function the call is the whole one, but on CUDA a caller waits for its launch, too
            function = self.bound.function or (self.bound.call if self._device == "cuda" else None)
            if function is not None:
                self._waits.append(time_of_function(function, self._device, measured.estimate))
            elif self._allocates:
                self._waits.append(measured.estimate)
            timed.function = speedup.timing(self._waits).seconds if self._waits else None
            if self._device == "cuda":
                self.tf32 |= torch_state.allows_tf32(importlib.import_module("torch"), os.environ)
        synchronize(self._device)
        # Now, since later the next implementation would be blamed, and timed on other values
        if changed := self._bench.shared.restore():
            timed.failed = timed.failed or f"it changed its inputs: {changed} (while timed)"

    def _flag(self, flags: tuple[str, ...]) -> None:
        self.timed.flags = tuple(dict.fromkeys((*self.timed.flags, *flags)))

    @contextmanager
    def _attempt(self, doing: str) -> Iterator[None]:
        """Take a step inside the block, and record an error that it raises, so that other implementations go on."""
        changes: list[str] = []  # of PyTorch's settings
        try:
            with self._bench.journal.running(doing, self.name, self._bench.case), torch_state.restored(changes.append):
                yield
        except (UsageError, ProblemError):
            raise
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            self._check_device(doing)
            message = " ".join(str(error).split())
            if isinstance(error, AuditError | limits.ImpossibleError):
                self.timed.failed = message
            elif isinstance(error, NotImplementedError) and doing == SET_UP:  # one that was bound has failed
                self.timed.missing = message or "not implemented"
            else:
                self.timed.failed = f"raised {type(error).__name__}: {message[:300]}"
        finally:
            words = "{} changes PyTorch's {}, which was restored for the others"
            notes = (words.format(self.name, change) for change in changes)
            self.timed.notes = tuple(dict.fromkeys((*self.timed.notes, *notes)))
            if replaced := ORIGINALS.put_back():
                self.timed.failed = f"it replaced {units.listed(replaced)}"

    def _check_device(self, doing: str) -> None:
        """End the process if it has lost the device, after an illegal access on CUDA for example.

        Raises:
            KernelVelocityError: the device is lost, and no parent would start another process.
        """
        if lost := lost_device(self._device):
            self._bench.journal.give_up(doing, self.name, self._bench.case, f"lost the device ({lost})")
            raise KernelVelocityError(f"{self.name} {self._bench.case}: the device is lost to this process: {lost}")


def synchronize(device: str) -> None:
    """Wait for the device."""
    if device == "cuda":
        importlib.import_module("torch").cuda.synchronize()


def lost_device(device: str) -> str | None:
    """Return the error of a device that reports it twice, None for a working one. An old error is reported once."""
    message = None
    for _ in range(2):
        try:
            synchronize(device)
            return None
        except RuntimeError as error:
            message = (str(error).splitlines() or ["it does not say why"])[0]
    return message


# One round ------------------------------------------------------------------------------------------------------------


class TimedRound(NamedTuple):
    """One round: `samples` in s per call, in order, without burn-in."""

    samples: tuple[float, ...]
    estimate: float  # s per call, 10%-per-side trimmed mean of the samples
    stop: str
    flags: tuple[str, ...]


def take_round(
    call: Call,
    rule: StoppingRule,
    device: str,
    *,
    working_set: float = 0.0,
    threads: int = 1,
    warmups: int | None = None,
) -> TimedRound:
    """Take one round of `call`, as a round of the history: warm-up by time, batches, quiet-core filter.

    With a fixed number of warm-up calls it is what published scripts do: a sample is one call, and all samples count.

    Args:
        call: on CUDA it launches on the current stream.
        rule: decides when it stops.
        device: "cpu" or "cuda".
        working_set: bytes that a call touches.
        threads: CPU threads that the call uses.
        warmups: calls before the first sample, each sample then one call. None: as a round of the history.

    Raises:
        ValueError: the timer returned a time that is zero, negative or not finite.
    """
    timer = timing.plain(device)
    before, clock = read_counters(), perf_counter()
    with gpu.GpuWatch(gpu.uuid() if device == "cuda" else None) as watch:
        if warmups is None:
            environ = {**os.environ, "KV_THREADS": str(threads)}
            folder = root_folder(os.environ) / ".asv" / "cache" / "gauge"
            with quiet.on_cpu(working_set, folder, environ) if device == "cpu" else nullcontext() as core:
                result = measure(call, timer, rule, watch.look, core)
            samples, stop, flags = without_burn_in(rule.samples), result.stop, result.flags
        else:
            stop = _sample_calls(call, rule, timer, warmups, watch.look)
            samples, flags = rule.samples, tuple(sorted(timer.flags))
    host = activity(before, read_counters(), perf_counter() - clock)
    contended = ("contended",) if host.contended else ()
    crowded = ("crowded",) if device == "cpu" and host.crowds(threads) else ()
    return TimedRound(
        samples=tuple(samples),
        estimate=trimmed_mean(samples),
        stop=stop,
        flags=tuple(dict.fromkeys((*flags, *contended, *crowded, *watch.flags))),
    )


def _sample_calls(call: Call, rule: StoppingRule, timer: Timer, warmups: int, look: Call) -> str:
    """Fill the rule with samples of one call each, and return its reason to stop."""
    for _ in range(warmups):
        call()
    look()
    rule.start()
    while not isinstance(decision := rule.decide(), Stop):
        began = perf_counter()
        samples = timer.samples(call, 1, decision.n)
        rule.add(samples, perf_counter() - began if timer.by_wall else sum(samples))
    look()
    return decision.reason.value


def time_of_function(function: Call, device: str, per_call: float) -> float:
    """Return the s per call that a caller waits for a whole function: the median of FUNCTION_SAMPLES, hot.

    On CUDA each call is waited for. On the CPU short calls are batched so that the clock resolves them.

    Args:
        function: allocates its outputs, checks its arguments, and computes.
        device: "cpu" or "cuda".
        per_call: s that a call takes, about.
    """
    timer = SyncTimer(TorchEvents(device).synchronize) if device == "cuda" else HostTimer()
    batch = 1 if device == "cuda" else batch_for(per_call, timer, timer.tick(), timer.overhead())
    count = FUNCTION_SAMPLES if FUNCTION_SAMPLES * batch * per_call <= FUNCTION_SECONDS else FUNCTION_FEWEST
    timer.samples(function, 1, 1)  # maps the memory that it allocates
    return sorted(timer.samples(function, batch, count))[count // 2]


# Whether outputs are right --------------------------------------------------------------------------------------------


def verify_outputs(
    problem: Problem, expected: Any, actual: Any, tolerance: accuracy.Tolerance | None
) -> tuple[Accuracy, ...]:
    """Return how right each output is.

    Args:
        problem: its `verify_result` decides where no tolerance is given.
        expected: what `problem.expected` returned: a tensor, or several.
        actual: what the implementation wrote.
        tolerance: decides instead.

    Raises:
        ValueError: the harness compares no numbers of that dtype by a tolerance.
    """
    names = problem.output_names()
    figures: Mapping[str, Mapping[str, Any]]
    try:
        figures = accuracy.compare_outputs(expected, actual, tolerance, names)
    except ValueError:
        if tolerance is not None:
            raise
        figures = {name: {} for name in names[: len(outputs_of(expected))] or ("out",)}
    if tolerance is None and not any(output.get("wrong", 0) is None for output in figures.values()):
        figures = _as_the_problem_says(problem, expected, actual, figures)
    return tuple(Accuracy(output=name, right=bool(output["right"]), details=output) for name, output in figures.items())


def _as_the_problem_says(
    problem: Problem, expected: Any, actual: Any, figures: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the figures with the verdict of the problem in place of that of the default tolerances."""
    right, details = problem.verify_result(expected, actual)
    # On several outputs its details may be in the form of `accuracy.verdict`
    parts = {next(iter(figures)): details} if len(figures) == 1 else details.get("outputs")
    parts = parts if isinstance(parts, Mapping) else {}
    stated = {name: part if isinstance(part := parts.get(name), Mapping) else {} for name in figures}
    refused = [name for name in figures if stated[name].get("right") is False]
    blamed = refused or [name for name in figures if not figures[name].get("right", True)] or list(figures)
    judged = {}
    for name, output in figures.items():
        accepted = (bool(right) or name not in blamed) and not any(output.get(count) for count in _NEVER_RIGHT)
        # The default tolerance's verdict says what is wrong and where, unless the problem allows more.
        agrees = not accepted and not output.get("right", True)
        merged = {key: value for key, value in output.items() if agrees or key not in _VERDICT}
        merged |= {key: value for key, value in stated[name].items() if value is not None}
        summary = accuracy.in_words(dict(details)) or "no reason given"
        why = merged.get("why") or f"the problem's own check rejects it: {summary}"
        judged[name] = {**merged, "right": accepted, "why": None if accepted else why}
    return judged


def wrong_outputs(verified: tuple[Accuracy, ...]) -> str:
    """Return what is wrong with the outputs that are wrong, as one line. "" where all are right."""
    wrong = (output for output in verified if not output.right)
    return "; ".join(f"{output.output} is wrong: {accuracy.in_words(dict(output.details))}" for output in wrong)
