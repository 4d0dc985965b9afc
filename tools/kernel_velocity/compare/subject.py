"""One implementation on one test case: bind it, verify it, time rounds, verify it again, audit it.

All implementations share the inputs of a test case. One that changes them is wrong, and they are restored. The audit
uses inputs that the implementation has never seen.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

from kernel_velocity.compare import accuracy as compare_accuracy
from kernel_velocity.compare import torch_state
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Accuracy, Timed
from kernel_velocity.compare.rounds import Round, take_round, time_of_function
from kernel_velocity.compare.settings import Settings
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.harness import limits, timing
from kernel_velocity.harness.audit import AuditError, FreshInputs, audit, check_kinds
from kernel_velocity.harness.benchmark import CHECK_STEP
from kernel_velocity.harness.cases import NATIVE
from kernel_velocity.harness.implementations import Bound, Module
from kernel_velocity.harness.originals import ORIGINALS
from kernel_velocity.harness.problem import Inputs, Problem, ProblemError, outputs_of
from kernel_velocity.harness.problem_file import is_out_of_memory
from kernel_velocity.harness.timers import Call
from kernel_velocity.harness.under_test import root_folder
from kernel_velocity.stats import speedup


class SharedInputs:
    """The tensors among the inputs of a test case, and copies of them as they were made."""

    def __init__(self, problem: Problem, inputs: Inputs) -> None:
        tensors = [value for value in inputs if hasattr(value, "data_ptr")]
        names = [str(entry["name"]) for entry in problem.parameters if entry["pointer"] and entry["const"]]
        if len(names) != len(tensors):
            names = [f"input {number}" for number in range(1, len(tensors) + 1)]
        self._tensors = {name: (tensor, tensor.clone()) for name, tensor in zip(names, tensors, strict=True)}

    def restore(self) -> str:
        """Restore changed inputs in place, their shapes too, and return their names, "" for none."""
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
    """A test case set up, for all its implementations."""

    problem: Problem
    case: str
    inputs: Inputs
    fresh: FreshInputs  # new random inputs of the same case
    shared: SharedInputs
    expected: Any  # of the reference: a tensor, or several
    work: limits.Work  # of a call, with the working set as its footprint
    settings: Settings
    journal: Journal

    @property
    def device(self) -> str:
        """Return the problem's device."""
        return self.problem.device


@dataclass(kw_only=True)
class Subject:
    """An implementation and its results so far. `missing` or `failed` is the reason why it is not timed."""

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
    flags: tuple[str, ...] = ()  # of the audit
    notes: dict[str, None] = field(default_factory=dict)  # what it changed in its process, each once

    @property
    def runs(self) -> bool:
        """Return whether it is timed."""
        return self.missing is None and self.failed is None

    def set_up(self, bind: Bind) -> None:
        """Bind it, and verify what it writes to poisoned outputs."""
        self.failed = self.bench.journal.death(self.name, self.bench.case)
        if self.runs:
            self._attempt("set up", partial(self._bind, bind))
        if self.runs:
            self.verify("before timing")
        if self.runs:
            self.function = getattr(self.bound, "function", None)  # a solution's
            if self.function is None:
                self.function = whole_function(self.name, self.bench.problem, self.bench.inputs)

    def _bind(self, bind: Bind) -> None:
        self.bound = bind(self.bench.problem, self.bench.case, self.bench.inputs)

    def verify(self, when: str) -> None:
        """Verify what a call writes to poisoned outputs. A wrong output is a failure, and no time counts."""
        self._attempt(f"verified {when}", partial(self._verify, when))

    def _verify(self, when: str) -> None:
        assert self.bound is not None  # it runs
        bench = self.bench
        self.bound.poison()
        self.bound.call()
        synchronize(bench.device)
        if changed := bench.shared.restore():
            self.failed = f"it changed its inputs: {changed} ({when})"
        elif outside := self.bound.beside():
            self.failed = f"it wrote outside its outputs: {outside} ({when})"
        else:
            self.accuracy = self._accuracy(bench.expected, self.bound.output())
            if not all(output.right for output in self.accuracy):
                self.failed = f"{compare_accuracy.in_words(self.accuracy)} ({when})"

    def _accuracy(self, expected: Any, output: Any) -> tuple[Accuracy, ...]:
        check_kinds(outputs_of(output))
        return compare_accuracy.verify(self.bench.problem, expected, output, self.bench.settings.tolerance)

    def audit(self) -> None:
        """Call it on new inputs (`harness.audit`). It fails if it is wrong there, or was faster before."""
        self._attempt("audited", self._audit)

    def _audit(self) -> None:
        assert self.bound is not None
        bench, timer = self.bench, timing.plain(self.bench.device)
        flags = audit(
            self.bound,
            bench.fresh,
            self._check,
            timer=timer,
            estimate=median(measured.estimate for measured in self.rounds),
            overhead=timer.overhead(),
            device=bench.device,
        )
        self.flags = (*self.flags, *flags)

    def _check(self) -> None:
        """Raise AuditError if about 1% of the outputs of the last call are not right."""
        assert self.bound is not None
        output, problem = self.bound.output(), self.bench.problem
        synchronize(self.bench.device)
        inputs, output = problem.subset(self.bench.inputs, output, CHECK_STEP)
        accuracy = self._accuracy(problem.expected(*inputs), output)
        if not all(output.right for output in accuracy):
            raise AuditError(f"{compare_accuracy.in_words(accuracy)}{self.bench.fresh}")

    def take_round(self) -> None:
        """Take one round, and the time of the whole function beside it."""
        self._attempt("timed", self._take_round)
        synchronize(self.bench.device)
        # Now, since later the next implementation would be blamed, and timed on other values
        if changed := self.bench.shared.restore():
            self.failed = self.failed or f"it changed its inputs: {changed} (while timed)"

    def _take_round(self) -> None:
        assert self.bound is not None
        settings, device = self.bench.settings, self.bench.device
        measured = take_round(
            self.bound.call,
            settings.rule(),
            device,
            working_set=self.bench.work.footprint or 0.0,
            threads=settings.threads,
            warmups=settings.warmups,
        )
        folder = root_folder(os.environ) / ".asv" / "cache" / "limits"
        flags = limits.check(self.bench.work, measured.estimate, device, settings.threads, folder)
        self.rounds.append(replace(measured, flags=(*measured.flags, *flags)))
        if self.function is not None:
            self.waits.append(time_of_function(self.function, device, measured.estimate))
        elif device == "cuda":  # the call is the whole function, but a caller waits for its launch, too
            self.waits.append(time_of_function(self.bound.call, device, measured.estimate))
        if device == "cuda":
            self.tf32 |= torch_state.allows_tf32(importlib.import_module("torch"), os.environ)

    def _attempt(self, doing: str, step: Callable[[], None]) -> None:
        """Take a step, and record an error that it raises, so that the other implementations go on."""
        try:
            with self.bench.journal.running(doing, self.name, self.bench.case), torch_state.restored(self._note):
                step()
        except (UsageError, ProblemError):
            raise
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            self._check_device(doing)
            message = " ".join(str(error).split())
            if isinstance(error, AuditError | limits.ImpossibleError):
                self.failed = message
            elif isinstance(error, NotImplementedError) and self.bound is None:  # one that was bound has failed
                self.missing = message or "not implemented"
            else:
                self.failed = f"raised {type(error).__name__}: {message[:300]}"
        finally:
            if replaced := ORIGINALS.put_back():
                self.failed = f"it replaced {replaced[0]}{f' and {len(replaced) - 1} more' * (len(replaced) > 1)}"

    def _check_device(self, doing: str) -> None:
        """End the process if it has lost the device, after an illegal access on CUDA for example.

        Raises:
            KernelVelocityError: the device is lost, and no parent would start another process.
        """
        if lost := lost_device(self.bench.device):
            self.bench.journal.give_up(doing, self.name, self.bench.case, f"lost the device ({lost})")
            raise KernelVelocityError(f"{self.name} {self.bench.case}: the device is lost to this process: {lost}")

    def _note(self, change: str) -> None:
        self.notes[f"{self.name} changes PyTorch's {change}, which was restored for the others"] = None

    def result(self) -> Timed:
        """Return the result, without a roofline."""
        return Timed(
            implementation=self.name,
            rounds=tuple(measured.samples for measured in self.rounds),
            estimates=tuple(measured.estimate for measured in self.rounds),
            stops=tuple(measured.stop for measured in self.rounds),
            flags=tuple(dict.fromkeys((*(flag for measured in self.rounds for flag in measured.flags), *self.flags))),
            function=self._function(),
            accuracy=self.accuracy,
            missing=self.missing,
            failed=self.failed,
            notes=tuple(self.notes),
        )

    def _function(self) -> float | None:
        """Return the s of the whole function. On the CPU a call that allocates its outputs is the whole function."""
        if self.waits:
            return speedup.timing(self.waits).seconds
        if not self.rounds or self.bound is None:
            return None
        self.bound.poison()
        allocates = self.bound.output() is None  # poisoning forgets an output that each call allocates
        return speedup.timing([measured.estimate for measured in self.rounds]).seconds if allocates else None


def whole_function(implementation: str, problem: Problem, inputs: Inputs) -> Call | None:
    """Return a call of the function that users call, with checks and allocation: it is called like its module.

    None for any other implementation, whose call is the whole function.
    """
    if implementation != NATIVE or not isinstance(module := problem.functions.get(NATIVE), Module):
        return None
    function = getattr(importlib.import_module(module.name), module.name.rpartition(".")[2], None)
    return None if function is None else partial(function, *problem.native_arguments(inputs))


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
