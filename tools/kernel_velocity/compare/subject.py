"""One implementation on one test case while it is compared: bound, verified, timed round by round, verified again.

The inputs of a test case are everybody's: one that changes them is wrong, and must not make others so.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kernel_velocity.compare import accuracy as compare_accuracy
from kernel_velocity.compare import process
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Accuracy, Timed
from kernel_velocity.compare.rounds import Place, Taken, take_round, time_of_function
from kernel_velocity.compare.settings import Settings
from kernel_velocity.errors import KernelVelocityError, UsageError, is_out_of_memory
from kernel_velocity.harness.implementations import Bound
from kernel_velocity.harness.problem import Inputs, Problem
from kernel_velocity.harness.timers import Call
from kernel_velocity.stats import speedup

Bind = Callable[[Problem, str, Inputs], Bound]
NATIVE = "native"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A test case set up: what is the same for all its implementations."""

    problem: Problem
    case: str
    inputs: Inputs
    shared: Shared  # what they must stay
    expected: Any  # a tensor, or several
    place: Place
    settings: Settings
    began: float  # Unix time at which the comparison began, s
    journal: Journal = field(default_factory=Journal)


@dataclass(kw_only=True)
class Subject:
    """An implementation as far as it got. `missing` or `failed` says why it is not timed (any more)."""

    name: str
    bench: Bench
    bound: Bound | None = None
    function: Call | None = None
    rounds: list[Taken] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)  # s of the whole function, one per round
    accuracy: tuple[Accuracy, ...] = ()
    missing: str | None = None
    failed: str | None = None
    tf32: bool = False  # whether float32 products on CUDA were allowed in TF32 while it was timed
    notes: dict[str, None] = field(default_factory=dict)  # what it did to its process, each once

    @property
    def runs(self) -> bool:
        """Whether it is timed."""
        return self.missing is None and self.failed is None

    def set_up(self, bind: Bind) -> None:
        """Bind it, call it on poisoned outputs, verify what it wrote; nothing wrong is timed."""
        bench = self.bench
        self.failed = bench.journal.died(self.name, bench.case)
        if self.runs:
            self._attempt("set up", lambda: self._bind(bind))
        if self.runs:
            self.verify("before timing")
        if self.runs:
            self.function = whole_function(self.name, bench.problem, bench.inputs)

    def _bind(self, bind: Bind) -> None:
        self.bound = bind(self.bench.problem, self.bench.case, self.bench.inputs)

    def verify(self, when: str) -> None:
        """Poison the outputs, call, verify every output; a wrong one is a failure, and no time of it counts."""
        self._attempt(f"verified {when}", partial(self._verify, when))

    def _verify(self, when: str) -> None:
        assert self.bound is not None  # it runs
        self.bound.poison()
        self.bound.call()
        bench = self.bench
        synchronize(bench.place.device)
        if changed := bench.shared.changed():
            bench.shared.restore()
            self.failed = f"it changed its inputs: {', '.join(changed)} ({when})"
            return
        if beside := self.bound.beside():
            self.failed = f"it wrote beside its outputs: {beside} ({when})"
            return
        self.accuracy = compare_accuracy.verify(
            bench.problem, bench.expected, self.bound.output(), bench.settings.tolerance
        )
        if not all(each.right for each in self.accuracy):
            self.failed = f"{compare_accuracy.in_words(self.accuracy)} ({when})"

    def output(self) -> Any:
        """Return what the last call wrote: a tensor, several, or None."""
        return None if self.bound is None else self.bound.output()

    def take_round(self) -> None:
        """Take one round, and the time of the whole function beside it."""
        self._attempt("timed", self._take_round)
        synchronize(self.bench.place.device)
        if changed := self.bench.shared.changed():  # now: the next one would be blamed, and timed on other values
            self.bench.shared.restore()
            self.failed = self.failed or f"it changed its inputs: {', '.join(changed)} (while timed)"

    def _take_round(self) -> None:
        assert self.bound is not None
        settings, place = self.bench.settings, self.bench.place
        taken = take_round(self.bound.call, settings.rule(), place, settings.warmups)
        self.rounds.append(taken)
        if self.function is not None:
            self.waits.append(time_of_function(self.function, place.device, taken.estimate))
        elif place.device == "cuda":  # what is called is the whole function, but a caller waits for its launch, too
            self.waits.append(time_of_function(self.bound.call, place.device, taken.estimate))
        if place.device == "cuda":
            self.tf32 |= process.allows_tf32(importlib.import_module("torch"), os.environ)

    def _attempt(self, doing: str, step: Callable[[], None]) -> None:
        """Take a step; note what it raises: an implementation is anybody's code, and costs the others nothing."""
        try:
            with self.bench.journal.running(doing, self.name, self.bench.case), process.set_back(self._changed):
                step()
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            self._look_at_device(doing)
            if isinstance(error, NotImplementedError) and self.bound is None:  # later it worked, and gave up
                self.missing = " ".join(str(error).split()) or "not implemented"
                return
            self.failed = f"raised {type(error).__name__}: {' '.join(str(error).split())[:300]}"

    def _look_at_device(self, doing: str) -> None:
        """End the process where the device is lost to it (CUDA: an illegal access): nobody can compute on it then.

        Raises:
            KernelVelocityError: it is lost, and there is no process that would start another one.
        """
        lost = lost_device(self.bench.place.device)
        if lost is None:
            return
        self.bench.journal.give_up(doing, self.name, self.bench.case, f"lost the device ({lost})")
        raise KernelVelocityError(f"{self.name} {self.bench.case}: the device is lost to this process: {lost}")

    def _changed(self, what: str) -> None:
        self.notes[f"{self.name} changes PyTorch's {what}; it was put back for the others"] = None

    def result(self) -> Timed:
        """Return what was found, without a roofline."""
        power = ((each.ended - self.bench.began, each.power) for each in self.rounds)
        return Timed(
            implementation=self.name,
            rounds=tuple(each.samples for each in self.rounds),
            estimates=tuple(each.estimate for each in self.rounds),
            stops=tuple(each.stop for each in self.rounds),
            flags=tuple(dict.fromkeys(flag for each in self.rounds for flag in each.flags)),
            function=self._function(),
            accuracy=self.accuracy,
            power=tuple((when, watts) for when, watts in power if watts is not None),
            missing=self.missing,
            failed=self.failed,
            notes=tuple(self.notes),
        )

    def _function(self) -> float | None:
        """Return the time of the whole function; on the CPU a call that allocates its outputs is the whole of it."""
        if self.waits:
            return speedup.timing(self.waits).seconds
        if not self.rounds or self.bound is None or not self._allocates():
            return None
        return speedup.timing([each.estimate for each in self.rounds]).seconds

    def _allocates(self) -> bool:
        """Return whether each call returns new outputs: then poisoning leaves nothing behind."""
        assert self.bound is not None
        self.bound.poison()
        return self.bound.output() is None


def whole_function(implementation: str, problem: Problem, inputs: Inputs) -> Call | None:
    """Return a call of the function that users call, with checks and allocation: `kernels.<k>.<k>(...)`.

    None for any other implementation: what is called is all there is.
    """
    if implementation != NATIVE or problem.kernel is None:
        return None
    module = importlib.import_module(f"kernels.{problem.kernel}")
    return partial(getattr(module, problem.kernel), *problem.native_arguments(inputs))


def synchronize(device: str) -> None:
    """Wait until the device has done what was launched."""
    if device == "cuda":
        importlib.import_module("torch").cuda.synchronize()


def lost_device(device: str) -> str | None:
    """Return the error that a device answers everything with from now on; None: it works.

    An error that is none of these is told once.
    """
    try:
        synchronize(device)
        return None
    except RuntimeError:
        pass
    try:
        synchronize(device)
        return None
    except RuntimeError as error:
        return (str(error).splitlines() or ["it does not say why"])[0]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Inputs and what they looked like when they were made.

    Attributes:
        tensors: those among the inputs.
        names: of the parameters that they are.
        copies: of each, as it was made.
    """

    tensors: tuple[Any, ...]
    names: tuple[str, ...]
    copies: tuple[Any, ...]

    def changed(self) -> list[str]:
        """Return the names of the inputs that are not what they were."""
        return [
            name
            for name, tensor, before in zip(self.names, self.tensors, self.copies, strict=True)
            if not _same(tensor, before)
        ]

    def restore(self) -> None:
        """Put the inputs back, in place, after an implementation changed some, their shapes too."""
        for tensor, before in zip(self.tensors, self.copies, strict=True):
            if not _same(tensor, before):
                if tensor.shape != before.shape:
                    tensor.resize_(before.shape)
                tensor.copy_(before)


def shared(problem: Problem, inputs: Inputs) -> Shared:
    """Return the inputs of a case, to be watched."""
    tensors = _tensors(inputs)
    named = [str(each["name"]) for each in problem.parameters if each["pointer"] and each["const"]]
    names = named if len(named) == len(tensors) else [f"input {number}" for number in range(1, len(tensors) + 1)]
    return Shared(tensors=tensors, names=tuple(names), copies=tuple(each.clone() for each in tensors))


def _tensors(inputs: Inputs) -> tuple[Any, ...]:
    return tuple(each for each in inputs if hasattr(each, "data_ptr"))


def _same(tensor: Any, before: Any) -> bool:
    """Return whether two tensors are equal, NaN in the same places included."""
    if tensor.shape != before.shape:
        return False
    differ = tensor != before
    if tensor.is_floating_point():
        differ &= ~((tensor != tensor) & (before != before))  # noqa: PLR0124 - NaN is unlike itself
    return not bool(differ.any())
