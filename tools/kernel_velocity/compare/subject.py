"""One implementation on one test case: bind it, verify it, time rounds, verify it again, audit it.

All implementations share the inputs of a test case. One that changes them is wrong, and they are restored. The audit
uses inputs that the implementation has never seen.

The problem's own `verify_result` decides whether outputs are right, unless a tolerance is given. NaN or infinity where
none is expected is always wrong, and so is another shape.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from kernel_velocity import processes, units, unproven
from kernel_velocity.compare.isolation import ProcessJournal
from kernel_velocity.compare.result import Accuracy, TimedImplementation
from kernel_velocity.compare.settings import TimingSettings
from kernel_velocity.compare.solutions import Bind, Solution
from kernel_velocity.engine import gpu, process_state, quiet, timing
from kernel_velocity.engine.reported import activity, read_counters
from kernel_velocity.engine.sampling import batch_for, measure
from kernel_velocity.engine.statistics import trimmed_mean
from kernel_velocity.engine.stopping import Stop, StoppingRule, without_burn_in
from kernel_velocity.engine.timers import Call, HostTimer, SyncTimer, Timer, TorchEvents
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.machine import limits
from kernel_velocity.problem import accuracy, null_answers
from kernel_velocity.problem.implementations import Bound
from kernel_velocity.problem.problem import Inputs, NotHereError, Problem, ProblemError, outputs_of, rebuilt
from kernel_velocity.problem.problem_file import is_out_of_memory
from kernel_velocity.problem.user_file import lacking
from kernel_velocity.stats import speedup
from kernel_velocity.suite.alone import AloneCalls, ApartError, AuditError
from kernel_velocity.suite.audit import ALONE, ALONE_SLACK, FreshInputs, audit, check_kinds
from kernel_velocity.suite.benchmark import CHECK_STEP
from kernel_velocity.suite.memory import unlike_reference
from kernel_velocity.suite.originals import ORIGINALS
from kernel_velocity.suite.under_test import root_folder

LOADED, SET_UP, TIMED, AUDITED = "loaded", "set up", "timed", "audited"  # steps of an implementation
FUNCTION_SAMPLES = 21  # of a whole function in each round; the median counts
FUNCTION_SECONDS = 0.1  # s that they may take; else there are FUNCTION_FEWEST
FUNCTION_FEWEST = 3
SCATTER_CALLS = 3  # further calls of a reference that does not reproduce itself
SCATTERS = 2.0  # times their largest distance that an error may have: the largest of few calls is not the largest

_TOLERANCE = ("rtol", "atol", "norm", "tolerance", "rule")
# The verdict under one tolerance: it does not hold where something else judged the output.
_VERDICT = (
    *("right", "why", "wrong", "first_wrong", "first_wrong_index", "first_expected", "first_actual"),
    *_TOLERANCE,
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


class TensorFacts(NamedTuple):
    """A tensor without its elements."""

    address: int  # of its memory, which tensors may share
    elements: int
    size: int  # bytes
    dtype: str


def tensor_facts(values: Sequence[Any]) -> list[TensorFacts]:
    """Return the facts of the tensors among values."""
    return [
        TensorFacts(
            tensor.untyped_storage().data_ptr(),
            int(tensor.numel()),
            int(tensor.numel() * tensor.element_size()),
            str(tensor.dtype).removeprefix("torch."),
        )
        for tensor in values
        if hasattr(tensor, "element_size")
    ]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A test case set up, for all its implementations."""

    problem: Problem
    case: str
    inputs: Inputs
    fresh: FreshInputs  # new random inputs of the same case
    shared: SharedInputs
    same_random: Call  # sets the random numbers that every verified call, the reference's too, begins with
    expected: Any  # of the reference: a tensor, or several
    others: Any  # the same of other inputs, None where there are none
    unproven: dict[tuple[object, ...], str] = field(default_factory=dict)  # by what the norm rule says of the outputs
    scatter: Scatter
    unfused_bytes: int | None  # that the reference's operations move one by one
    settings: TimingSettings
    journal: ProcessJournal


@dataclass(frozen=True)
class Scatter:
    """How far outputs of a reference lie apart that gets the same inputs and the same random numbers.

    `allowed` has the absolute error of each output that may be due to it: SCATTERS times the largest one seen.
    """

    allowed: tuple[float, ...] = ()  # () where the reference reproduces itself
    note: str = ""

    @classmethod
    def of(cls, expected: Any, again: Callable[[], Any]) -> Scatter:
        """Return the scatter between a result and another, if they differ between it and SCATTER_CALLS of them."""
        largest = _distances(expected, again())
        if not any(largest):
            return cls()
        for _ in range(SCATTER_CALLS - 1):
            largest = [max(pair) for pair in zip(largest, _distances(expected, again()), strict=True)]
        allowed = tuple(SCATTERS * distance for distance in largest)
        apart = f"{1 + SCATTER_CALLS} calls lie up to {max(largest):.3g} apart"
        return cls(
            allowed,
            f"its reference does not reproduce itself with the same random numbers: {apart}; "
            f"errors up to {max(allowed):.3g} are not called wrong",
        )

    def covers(self, index: int, figures: Mapping[str, Any]) -> bool:
        """Return whether the error of an output lies within it. NaN and another shape never do."""
        error: float | None = figures.get("max_absolute_error")
        if not self.allowed or error is None or any(figures.get(count) for count in _NEVER_RIGHT):
            return False
        return error <= self.allowed[index]


def _distances(first: Any, other: Any) -> list[float]:
    """Return the largest absolute difference of every output of two results, 0 where they cannot be compared."""
    try:
        compared = accuracy.compare_outputs(first, other)
    except ValueError:  # a dtype that is not compared
        return [0.0] * len(outputs_of(first))
    return [figures["max_absolute_error"] or 0.0 for figures in compared.values()]


class Subject:
    """An implementation on a test case, and its results so far (`timed`)."""

    bound: Bound  # once it is set up

    def __init__(self, name: str, bench: Bench) -> None:
        self.name, self._bench, self._device = name, bench, bench.problem.device
        notes = (bench.scatter.note,) if bench.scatter.note else ()
        self.timed = TimedImplementation(implementation=name, notes=notes)
        self.tf32 = False  # whether float32 products on CUDA were allowed in TF32 while it was timed
        self._allocates = False  # whether each call allocates its outputs
        self._alone = AloneCalls(self._device)
        self._waits: list[float] = []  # s of the whole function, one per round
        self._started: set[int | threading.Thread] = set()  # numbers of processes, and threads

    @property
    def runs(self) -> bool:
        """Return whether it is timed."""
        return not self.timed.reason

    def set_up(self, bind: Bind) -> None:
        """Bind it, and verify what it writes to poisoned outputs."""
        self.timed.failed = self._bench.journal.death(self.name, self._bench.case)
        if self.runs and isinstance(bind, Solution):
            with self._attempt(LOADED):
                bind.load()
        if self.runs:
            with self._attempt(SET_UP):
                bound = bind(self._bench.problem, self._bench.case, self._bench.inputs)
                self.bound = replace(bound, poison=partial(self._poison, bound))
                if bound.timer is not None:
                    self.timed.notes += (
                        f"{self.name} times a region of itself: what lies outside is in whole function",
                    )
        if self.runs:
            self.verify("before timing")

    def outputs(self) -> list[TensorFacts]:
        """Return what the tensors among its outputs are."""
        return tensor_facts(outputs_of(self.bound.output()))

    def end(self) -> None:
        """End what belongs to it alone."""

    def _poison(self, bound: Bound) -> None:
        bound.poison()
        self._random = process_state.random_state()  # so that the reference draws what the audited call does

    def verify(self, when: str) -> None:
        """Verify what a call writes to poisoned outputs. A wrong output is a failure, and no time counts."""
        with self._attempt(f"verified {when}"):
            self.bound.poison()
            self._allocates = self.bound.output() is None  # poisoning forgets an output that each call allocates
            self._bench.same_random()
            self.bound.call()
            synchronize(self._device)
            if changed := self._bench.shared.restore():
                self.timed.failed = f"it changed its inputs: {changed} ({when})"
            elif outside := self.bound.beside():
                self.timed.failed = f"it wrote outside its outputs: {outside} ({when})"
            else:
                self.timed.accuracy = self._accuracy(self._bench.expected, self.bound.output())
                wrong = wrong_outputs(self.timed.accuracy) or self._unlike(self._bench.inputs, self._bench.expected)
                if wrong:
                    self.timed.failed = f"{wrong} ({when})"
                else:
                    self._try_null_answers()

    def _try_null_answers(self) -> None:
        """Say which null answers would be taken for its outputs, which are right.

        The check is the same for all implementations that the norm rule judges alike, and tried once.
        """
        bench, verified = self._bench, self.timed.accuracy
        norms = tuple(output.details.get("norm_right") for output in verified)
        if norms not in bench.unproven:
            problem, output, inputs, expected = bench.problem, self.bound.output(), bench.inputs, bench.expected
            others, step = bench.others, null_answers.step_for(output, CHECK_STEP)
            if step > 1 and problem.judges_elements:
                inputs, expected, output, others = (
                    null_answers.thinned(values, step) for values in (inputs, expected, output, others)
                )
            elif step > 1:
                both = (*outputs_of(output), *outputs_of(others))
                inputs, picked = problem.subset(inputs, both, step)  # the same rows of both
                leaves = iter(outputs_of(picked))
                output, others = (None if form is None else rebuilt(form, leaves) for form in (output, others))
                if inputs is not bench.inputs:
                    bench.same_random()
                    expected = problem.expected(*inputs)

            def is_right(answer: Any) -> bool:
                return not wrong_outputs(self._accuracy(expected, answer))

            rtol = max((accuracy.stated_rtol(part.details) for part in verified), default=0.0)
            passed = null_answers.unproven(is_right, problem, inputs, expected, output, others=others, rtol=rtol)
            bench.unproven[norms] = unproven.in_words(passed)
        self.timed.unproven = bench.unproven[norms]
        self._compare_rules(verified)

    def _compare_rules(self, verified: tuple[Accuracy, ...]) -> None:
        """Say where the norm rule refuses outputs that their check takes.

        A public set that states a relative tolerance means it, whatever its absolute one hides: the output is unproven.
        """
        bench = self._bench
        if bench.problem.kernel is not None:  # one of ours has chosen its rule
            return
        for output in verified:
            text = f"{output.output} is right by the problem's check, and wrong by the norm rule: "
            if output.details.get("norm_right") is not False or text in f"{self.timed.unproven} {self.timed.notes}":
                continue
            share = output.number("norm_error")
            text += f"the norm of the errors is {share:.3g} of that of the expected values{bench.fresh}"
            if not bench.problem.judges_elements or bench.settings.tolerance is not None:
                self.timed.notes = tuple(dict.fromkeys((*self.timed.notes, f"{self.name} {bench.case}: {text}")))
            else:
                self.timed.unproven = "; ".join(filter(None, (self.timed.unproven, text)))

    def audit(self, *, is_last: bool) -> bool:
        """Call it on new inputs (`suite.audit`). It fails if it is wrong there, or was faster before.

        Return whether that is undecided: calls by themselves took longer than calls in a row, which may have become
        slower. Unless `is_last`, a round that does not count then measures these again, and another audit decides.
        """
        is_undecided = False
        with self._attempt(AUDITED):
            timer = self.bound.timer or timing.plain(self._device)
            try:
                flags = audit(
                    self.bound,
                    self._bench.fresh,
                    self._check,
                    timer=timer,
                    estimate=median(self.timed.estimates),
                    overhead=timer.overhead(),
                    device=self._device,
                    alone=self._alone,
                    threads=self._bench.settings.threads,
                    allocates=self._allocates,
                )
                self._flag(flags)
                self._check_function()
            except ApartError:
                is_undecided = not is_last
                if is_last:
                    raise
        return is_undecided

    def _check_function(self) -> None:
        """Hold the whole function against the time of a call: work that lies outside of it is in no figure.

        It may take ALONE times as long and ALONE_SLACK more: it allocates, checks, and is waited for. Beyond that a
        region that a solution times of itself, which may have to be prepared, is noted.

        Raises:
            ApartError: of a call.
        """
        function = self._function()
        if function is None or not self._waits:
            return
        timed = max(median(self.timed.estimates), self._alone.row)
        most = ALONE * timed + ALONE_SLACK[self._device]
        whole = min(self._waits)
        if whole > most:  # or the machine was busy
            whole = min(whole, time_of_function(function, self._device, timed, min))
        if whole <= most:
            return
        times = f"its whole function takes {units.seconds(whole)}"
        if self.bound.timer is None:
            raise ApartError(f"{times}, and {units.seconds(timed)} were timed: its work lies outside of the timed call")
        self._note(f"{self.name} {self._bench.case}: {times}, and its region {units.seconds(timed)} of them")

    def _function(self) -> Call | None:
        """Return what a caller waits for, None where it is the call. On CUDA a call is launched, and waited for."""
        return self.bound.function or (self.bound.call if self._device == "cuda" else None)

    def _check(self) -> None:
        """Raise AuditError if outputs of the last call, about 1% drawn at random, are not right."""
        output, problem = self.bound.output(), self._bench.problem
        synchronize(self._device)
        inputs, output = problem.subset(self._bench.inputs, output, CHECK_STEP)
        self._random()
        expected = problem.expected(*inputs)
        verified = self._accuracy(expected, output)
        if wrong := wrong_outputs(verified) or self._unlike(inputs, expected):
            raise AuditError(f"{wrong}{self._bench.fresh}")
        self._compare_rules(verified)

    def _unlike(self, rows: Inputs, expected: Any) -> str:
        """Return what outputs that the last call allocated lack and the reference's have (`memory`), "" for nothing."""
        if not self._allocates:
            return ""
        problem, inputs, restore_random = self._bench.problem, self._bench.inputs, process_state.random_state()
        unlike = unlike_reference(problem, inputs, self.bound.output(), rows, expected)
        restore_random()  # a reference may draw
        return f"wrong: {unlike}" if unlike else ""

    def _accuracy(self, expected: Any, output: Any) -> tuple[Accuracy, ...]:
        check_kinds(outputs_of(output))
        length = null_answers.longest_sum(self._bench.inputs)
        verified = verify_outputs(self._bench.problem, expected, output, self._bench.settings.tolerance, length)
        return tuple(
            replace(part, right=True, details={**part.details, "right": True, "why": None, "norm_right": None})
            if self._bench.scatter.covers(index, part.details)
            else part
            for index, part in enumerate(verified)
        )

    def take_round(self, work: limits.Work, *, counts: bool = True) -> None:
        """Take one round, and the time of the whole function beside it. `work` is what a call does.

        One that does not count says how long calls in a row take now.
        """
        settings, timed = self._bench.settings, self.timed
        with self._attempt(TIMED):
            measured = take_round(
                self.bound.call,
                settings.rule,
                self._device,
                working_set=work.footprint or 0.0,
                threads=settings.threads,
                warmups=settings.warmups,
                timer=self.bound.timer,
            )
            if not counts:
                self._alone.row = max(self._alone.row, measured.estimate)
                return
            self._alone.row = measured.estimate
            folder = root_folder(os.environ) / ".asv" / "cache" / "limits"
            self._flag(
                (*measured.flags, *limits.check(work, measured.estimate, self._device, settings.threads, folder))
            )
            timed.rounds += (measured.samples,)
            timed.estimates += (measured.estimate,)
            timed.stops += (measured.stop,)
            if (function := self._function()) is not None:
                self._waits.append(time_of_function(function, self._device, measured.estimate))
            elif self._allocates:
                self._waits.append(measured.estimate)
            timed.function = speedup.timing(self._waits).seconds if self._waits else None
            if self._device == "cuda":
                self.tf32 |= process_state.allows_tf32(importlib.import_module("torch"), os.environ)
        synchronize(self._device)
        # Now, since later the next implementation would be blamed, and timed on other values
        if changed := self._bench.shared.restore():
            timed.failed = timed.failed or f"it changed its inputs: {changed} (while timed)"

    def note_left(self) -> None:
        """Note what it started and what still runs, besides PyTorch's own: that may slow the others down."""
        left = [processes.described(number) for number in processes.children() if number in self._started]
        left += [f"thread {thread.name}" for thread in threading.enumerate() if thread in self._started]
        if left := [text for text in left if not any(name in text for name in processes.HELPERS)]:
            self._note(f"{self.name} leaves {units.listed(left, 3)} running; processes are killed at the end")

    def _note(self, *notes: str) -> None:
        self.timed.notes = tuple(dict.fromkeys((*self.timed.notes, *notes)))

    def _flag(self, flags: tuple[str, ...]) -> None:
        self.timed.flags = tuple(dict.fromkeys((*self.timed.flags, *flags)))

    @contextmanager
    def _attempt(self, doing: str) -> Iterator[None]:
        """Take a step inside the block, and record an error that it raises, so that other implementations go on."""
        changes: list[str] = []  # of settings
        before = processes.children() | set(threading.enumerate())
        try:
            with (
                self._bench.journal.running(doing, self.name, "" if doing == LOADED else self._bench.case),
                process_state.restored(changes.append),
            ):
                yield
        except (Exception, SystemExit) as error:
            is_users = isinstance(error, UsageError | ProblemError) and not isinstance(error, NotHereError)
            if is_users or is_out_of_memory(error):
                raise
            self._check_device(doing)
            message = " ".join(str(error).split())
            if isinstance(error, AuditError | limits.ImpossibleError):
                self.timed.failed = message
            elif isinstance(error, NotImplementedError) and doing in (LOADED, SET_UP):  # one that was bound has failed
                self.timed.missing = message or "not implemented"
            elif not self.timed.rounds and (reason := lacking(error, has_cuda=self._device == "cuda")):
                self.timed.missing = reason
            else:
                self.timed.failed = f"raised {type(error).__name__}: {message[:300]}"
        finally:
            words = "{} changes {}, which was restored for the others"
            if doing != TIMED:  # the problem draws inputs, computes its reference and verifies in the other steps
                changes = [change for change in changes if change not in process_state.RANDOM]
            notes = (words.format(self.name, process_state.owned(change)) for change in changes)
            self._note(*notes)
            started = (processes.children() | set(threading.enumerate())) - before
            self._bench.journal.note_started(self.name, [number for number in started if isinstance(number, int)])
            self._started |= started
            replaced = ORIGINALS.put_back()
            if replaced and doing == LOADED:  # a library that it imports may, and has no use of it
                self._note(f"loading {self.name} replaces {units.listed(replaced)}, which was restored")
            elif replaced:
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
    timer: Timer | None = None,
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
        timer: None: that of the device.

    Raises:
        ValueError: the timer returned a time that is zero, negative or not finite.
    """
    timer = timer or timing.plain(device)
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


def time_of_function(
    function: Call, device: str, per_call: float, reduce: Callable[[Sequence[float]], float] = median
) -> float:
    """Return the s per call that a caller waits for a whole function: the median of FUNCTION_SAMPLES, hot.

    On CUDA each call is waited for. On the CPU short calls are batched so that the clock resolves them.

    Args:
        function: allocates its outputs, checks its arguments, and computes.
        device: "cpu" or "cuda".
        per_call: s that a call takes, about.
        reduce: makes one time of the samples, `min` on a machine that may be busy.
    """
    timer = SyncTimer(TorchEvents(device).synchronize) if device == "cuda" else HostTimer()
    batch = 1 if device == "cuda" else batch_for(per_call, timer, timer.tick(), timer.overhead())
    count = FUNCTION_SAMPLES if FUNCTION_SAMPLES * batch * per_call <= FUNCTION_SECONDS else FUNCTION_FEWEST
    timer.samples(function, 1, 1)  # maps the memory that it allocates
    return reduce(timer.samples(function, batch, count))


# Whether outputs are right --------------------------------------------------------------------------------------------


def verify_outputs(
    problem: Problem, expected: Any, actual: Any, tolerance: accuracy.Tolerance | None, length: int = 1
) -> tuple[Accuracy, ...]:
    """Return how right each output is.

    Args:
        problem: its `verify_result` decides where no tolerance is given.
        expected: what `problem.expected` returned: a tensor, or several.
        actual: what the implementation wrote.
        tolerance: decides instead.
        length: terms of the longest sum behind an element, for the norm rule, whose verdict is `norm_right` of the
            details (`accuracy.is_within_norm`).

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
    verified = []
    for name, output in figures.items():
        norm_right = accuracy.is_within_norm(output, length, accuracy.stated_rtol(output))
        details = {**output, "norm_right": norm_right}
        if norm_right and not output["right"] and problem.kernel is None:  # a public set's own rule, and ours
            details["why"] = f"{output['why']}; right by the norm rule"
        verified.append(Accuracy(output=name, right=bool(output["right"]), details=details))
    return tuple(verified)


def _as_the_problem_says(
    problem: Problem, expected: Any, actual: Any, figures: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the figures with the verdict of the problem in place of that of the default tolerances."""
    right, details = problem.verify_result(expected, actual)
    # Its details may be in the form of `accuracy.verdict`
    parts = outputs if isinstance(outputs := details.get("outputs"), Mapping) else {}
    whole = details if len(figures) == 1 else {}
    stated = {name: part if isinstance(part := parts.get(name), Mapping) else whole for name in figures}
    refused = [name for name in figures if stated[name].get("right") is False]
    blamed = refused or [name for name in figures if not figures[name].get("right", True)] or list(figures)
    judged = {}
    for name, output in figures.items():
        accepted = (bool(right) or name not in blamed) and not any(output.get(count) for count in _NEVER_RIGHT)
        # The default tolerance did not decide. It says what is wrong and where, unless the problem allows more.
        agrees = not accepted and not output.get("right", True)
        left_out = _TOLERANCE if agrees else _VERDICT
        merged = {key: value for key, value in output.items() if key not in left_out}
        merged |= {key: value for key, value in stated[name].items() if value is not None}
        summary = accuracy.in_words(dict(details)) or "no reason given"
        why = merged.get("why") or f"the problem's own check rejects it: {summary}"
        judged[name] = {**merged, "right": accepted, "why": None if accepted else why}
    return judged


def wrong_outputs(verified: tuple[Accuracy, ...]) -> str:
    """Return what is wrong with the outputs that are wrong, as one line. "" where all are right."""
    wrong = (output for output in verified if not output.right)
    return "; ".join(f"{output.output} is wrong: {accuracy.in_words(dict(output.details))}" for output in wrong)
