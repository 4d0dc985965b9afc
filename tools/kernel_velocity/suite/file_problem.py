"""Use the file of a public problem as a problem of a suite, with a fixed list of test cases.

The file is read when a case is set up, so that discovery needs neither PyTorch nor what the file imports.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from kernel_velocity.problem.implementations import Bound, poison
from kernel_velocity.problem.problem import C_TYPES, Inputs, Outputs, Problem, TestCase, Verdict, outputs_of
from kernel_velocity.problem.problem_file import DTYPE, load_file, parameters_of
from kernel_velocity.problem.problem_formats import copies
from kernel_velocity.suite.under_test import c_function


class CaseInputs(tuple[Any, ...]):
    """The inputs of a case, and what `get_extra_params` adds for the native code."""

    extra: tuple[Any, ...] = ()


class FileProblem(Problem):
    """A public problem in a file. `definition.benchmark` makes subclasses, which name the file and fix the cases.

    Attributes:
        file: of the problem, with the name of the class behind a colon where it has several.
        names: what the file calls each of our cases.
        flops: of a call, by our cases, as the file says.
        outputs: names of the outputs, in order: keywords of the native function where there are several.
    """

    file: ClassVar[str | Path]
    names: ClassVar[Mapping[str, str]]
    flops: ClassVar[Mapping[str, int]] = {}
    outputs: ClassVar[Sequence[str]] = ()

    def __init__(self) -> None:
        super().__init__(name=str(self.kernel))
        self._definition: Problem | None = None
        self._writes: bool | None = None  # whether the reference writes its inputs, None before its first call

    @property
    def definition(self) -> Problem:
        """The file's own problem, on our device."""
        if self._definition is None or self._definition.device != self.device:
            path, _, name = str(self.file).partition(":")
            self._definition = load_file(Path(path), name or None, self.device, DTYPE)
        return self._definition

    def generate_test_cases(self) -> list[TestCase]:
        """Return the cases of the device."""
        return [
            TestCase(name=name, dims=(), create_inputs=partial(self._inputs, self.names[name]))
            for name in self.cases[self.device]
        ]

    def generate_sample(self) -> TestCase:
        """Return the file's sample."""
        name = self.definition.generate_sample()["name"]
        return TestCase(name=name, dims=(), create_inputs=partial(self._inputs, name))

    def _inputs(self, name: str) -> CaseInputs:
        test = self.definition.test_case(name)
        inputs = CaseInputs(test["create_inputs"]())
        inputs.extra = tuple(self.definition.get_extra_params(test))
        return inputs

    def reference_solution(self, *inputs: Any) -> Outputs:
        """Return what the file's reference computes. One that writes its inputs gets copies, and these are timed."""
        if self._writes is False:
            return self.definition.reference_solution(*inputs)
        arguments = copies(inputs)
        result = self.definition.reference_solution(*arguments)
        if self._writes is None:
            self._writes = any(value._version for value in arguments if hasattr(value, "data_ptr"))
        return result

    def expected(self, *inputs: Any) -> Outputs:
        """Return what the file's reference computes."""
        return self.definition.expected(*inputs)

    def verify_result(self, expected: Outputs, actual: Outputs) -> Verdict:
        """Return the file's verdict."""
        return self.definition.verify_result(expected, actual)

    def get_flops(self, test_case: TestCase) -> int | None:
        """Return the file's figure, as it was written down with the cases."""
        return self.flops.get(test_case["name"])

    def empty_output(self, inputs: Inputs) -> Outputs:
        """Return uninitialised outputs like those of the reference."""
        made = tuple(output.new_empty(output.shape) for output in outputs_of(self.expected(*inputs)))
        return made[0] if len(made) == 1 else made

    def native_arguments(self, inputs: Inputs) -> Inputs:
        """Return what the native code reads, in the order of its signature: inputs, then trailing arguments."""
        values = (*inputs, *getattr(inputs, "extra", ()))
        read = [entry for entry in parameters_of(self.definition) if entry["const"] or not entry["pointer"]]
        return tuple(
            value if entry["pointer"] or not hasattr(value, "data_ptr") else value.item()
            for entry, value in zip(read, values, strict=True)
        )

    def output_names(self) -> tuple[str, ...]:
        """Return the names of the outputs."""
        return tuple(self.outputs)

    def reference_source(self) -> str:
        """Return the text of the file."""
        return self.definition.reference_source()


@dataclass(frozen=True)
class Solution:
    """The function `solution` of a library as an implementation of a public problem.

    Args:
        library: a file that the build makes, such as "relu.so". The function takes what the problem's signature says,
            returns nothing, and runs on CUDA's default stream where the pointers are to a GPU.
        device: "cpu" or "cuda" where it is for that alone. None: for both.
    """

    library: str
    device: str | None = field(default=None, kw_only=True)

    def __call__(self, problem: FileProblem, _case: str, inputs: Inputs) -> Bound:
        """Return it bound to inputs."""
        function = c_function(self.library, "solution")
        function.restype = None
        output = problem.empty_output(inputs)
        read, written = iter(problem.native_arguments(inputs)), iter(outputs_of(output))
        tensors, arguments = [], []
        for entry in parameters_of(problem.definition):
            value = next(written if entry["pointer"] and not entry["const"] else read)
            tensors.append(value)
            is_tensor = hasattr(value, "data_ptr")
            arguments.append(ctypes.c_void_p(value.data_ptr()) if is_tensor else C_TYPES[entry["type"]][0](value))
        call = partial(function, *arguments)
        call.__dict__["tensors"] = tensors  # kept alive as long as the call is
        return Bound(call, lambda: output, lambda: poison(output))
