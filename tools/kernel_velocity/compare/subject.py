"""One implementation on one test case: bound, verified, timed round by round, verified again.

All implementations share the inputs of a test case. One that changes them is wrong, and they are put back.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kernel_velocity.compare import accuracy as compare_accuracy
from kernel_velocity.compare import torch_state
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Accuracy, Timed
from kernel_velocity.compare.rounds import Round, take_round, time_of_function
from kernel_velocity.compare.settings import Settings
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.errors import KernelVelocityError, UsageError, is_out_of_memory
from kernel_velocity.harness.cases import NATIVE
from kernel_velocity.harness.implementations import Bound
from kernel_velocity.harness.problem import Inputs, Problem
from kernel_velocity.harness.timers import Call
from kernel_velocity.stats import speedup


class SharedInputs:
    """The tensors among the inputs of a test case, and copies of them as they were made."""

    def __init__(self, problem: Problem, inputs: Inputs) -> None:
        tensors = [each for each in inputs if hasattr(each, "data_ptr")]
        names = [str(each["name"]) for each in problem.parameters if each["pointer"] and each["const"]]
        if len(names) != len(tensors):
            names = [f"input {number}" for number in range(1, len(tensors) + 1)]
        self._tensors = {name: (each, each.clone()) for name, each in zip(names, tensors, strict=True)}

    def put_back(self) -> str:
        """Put back, in place, the inputs that were changed, their shapes too; return their names, "" for none."""
        changed = [name for name, (tensor, before) in self._tensors.items() if not _same(tensor, before)]
        for tensor, before in map(self._tensors.__getitem__, changed):
            if tensor.shape != before.shape:
                tensor.resize_(before.shape)
            tensor.copy_(before)
        return ", ".join(changed)


def _same(tensor: Any, before: Any) -> bool:
    """Return whether two tensors are equal, NaN in the same places included."""
    if tensor.shape != before.shape:
        return False
    differ = tensor != before
    if tensor.is_floating_point():
        differ &= ~((tensor != tensor) & (before != before))  # noqa: PLR0124 - NaN is unlike itself
    return not bool(differ.any())


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A test case set up: what is the same for all its implementations."""

    problem: Problem
    case: str
    inputs: Inputs
    shared: SharedInputs
    expected: Any  # a tensor, or several
    working_set: int  # bytes
    settings: Settings
    began: float  # Unix time at which the comparison began, s
    journal: Journal

    @property
    def device(self) -> str:
        """Return the problem's device."""
        return self.problem.device


@dataclass(kw_only=True)
class Subject:
    """An implementation as far as it got. `missing` or `failed` says why it is not timed (any more)."""

    name: str
    bench: Bench
    bound: Bound | None = None
    function: Call | None = None
    rounds: list[Round] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)  # s of the whole function, one per round
    accuracy: tuple[Accuracy, ...] = ()
    missing: str | None = None
    failed: str | None = None
    tf32: bool = False  # whether float32 products on CUDA were allowed in TF32 while it was timed
    notes: dict[str, None] = field(default_factory=dict)  # what it changed in its process, each once

    @property
    def runs(self) -> bool:
        """Return whether it is timed."""
        return self.missing is None and self.failed is None

    def set_up(self, bind: Bind) -> None:
        """Bind it, call it on poisoned outputs, verify what it wrote; nothing wrong is timed."""
        self.failed = self.bench.journal.death(self.name, self.bench.case)
        if self.runs:
            self._attempt("set up", partial(self._bind, bind))
        if self.runs:
            self.verify("before timing")
        if self.runs:
            self.function = whole_function(self.name, self.bench.problem, self.bench.inputs)

    def _bind(self, bind: Bind) -> None:
        self.bound = bind(self.bench.problem, self.bench.case, self.bench.inputs)

    def verify(self, when: str) -> None:
        """Poison the outputs, call, verify every output; a wrong one is a failure, and no time of it counts."""
        self._attempt(f"verified {when}", partial(self._verify, when))

    def _verify(self, when: str) -> None:
        assert self.bound is not None  # it runs
        bench = self.bench
        self.bound.poison()
        self.bound.call()
        synchronize(bench.device)
        if changed := bench.shared.put_back():
            self.failed = f"it changed its inputs: {changed} ({when})"
        elif beside := self.bound.beside():
            self.failed = f"it wrote beside its outputs: {beside} ({when})"
        else:
            output, tolerance = self.bound.output(), bench.settings.tolerance
            self.accuracy = compare_accuracy.verify(bench.problem, bench.expected, output, tolerance)
            if not all(each.right for each in self.accuracy):
                self.failed = f"{compare_accuracy.in_words(self.accuracy)} ({when})"

    def take_round(self) -> None:
        """Take one round, and the time of the whole function beside it."""
        self._attempt("timed", self._take_round)
        synchronize(self.bench.device)
        # At once: the next implementation would be blamed, and timed on other values
        if changed := self.bench.shared.put_back():
            self.failed = self.failed or f"it changed its inputs: {changed} (while timed)"

    def _take_round(self) -> None:
        assert self.bound is not None
        settings, device = self.bench.settings, self.bench.device
        taken = take_round(
            self.bound.call,
            settings.rule(),
            device,
            working_set=self.bench.working_set,
            threads=settings.threads,
            warmups=settings.warmups,
        )
        self.rounds.append(taken)
        if self.function is not None:
            self.waits.append(time_of_function(self.function, device, taken.estimate))
        elif device == "cuda":  # what is called is the whole function, but a caller waits for its launch, too
            self.waits.append(time_of_function(self.bound.call, device, taken.estimate))
        if device == "cuda":
            self.tf32 |= torch_state.allows_tf32(importlib.import_module("torch"), os.environ)

    def _attempt(self, doing: str, step: Callable[[], None]) -> None:
        """Take a step; note what it raises: an implementation is anybody's code, and costs the others nothing."""
        try:
            with self.bench.journal.running(doing, self.name, self.bench.case), torch_state.set_back(self._note):
                step()
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            self._check_device(doing)
            message = " ".join(str(error).split())
            if isinstance(error, NotImplementedError) and self.bound is None:  # once bound, it has failed
                self.missing = message or "not implemented"
            else:
                self.failed = f"raised {type(error).__name__}: {message[:300]}"

    def _check_device(self, doing: str) -> None:
        """End the process where the device is lost to it (CUDA: an illegal access): nobody can compute on it then.

        Raises:
            KernelVelocityError: it is lost, and there is no process that would start another one.
        """
        if lost := lost_device(self.bench.device):
            self.bench.journal.give_up(doing, self.name, self.bench.case, f"lost the device ({lost})")
            raise KernelVelocityError(f"{self.name} {self.bench.case}: the device is lost to this process: {lost}")

    def _note(self, change: str) -> None:
        self.notes[f"{self.name} changes PyTorch's {change}; it was put back for the others"] = None

    def result(self) -> Timed:
        """Return what was measured, without a roofline."""
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
        if not self.rounds or self.bound is None:
            return None
        self.bound.poison()
        allocates = self.bound.output() is None  # new outputs in each call: then poisoning leaves nothing behind
        return speedup.timing([each.estimate for each in self.rounds]).seconds if allocates else None


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
    """Return the error that a device answers every question with; None: it works, though it may report an old error."""
    message = None
    for _ in range(2):  # an error that a device reports only once is no loss
        try:
            synchronize(device)
            return None
        except RuntimeError as error:
            message = (str(error).splitlines() or ["it does not say why"])[0]
    return message
