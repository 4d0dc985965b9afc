"""What problems over one long vector have in common: sizes, seeded inputs that repeat 1M values, strided checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from kernel_velocity.harness.cases import ELEMENTWISE, dims_of
from kernel_velocity.harness.problem import Inputs, Problem, TestCase, tiled

if TYPE_CHECKING:
    import torch

PERIOD = 1_000_000  # random values drawn; larger inputs repeat them


class ElementwiseProblem(Problem):
    """A problem whose output element i depends on element i of each input tensor alone."""

    cases: ClassVar[Mapping[str, Sequence[str]]] = {"cpu": ELEMENTWISE, "cuda": ELEMENTWISE}
    # One that a last-level cache of tens of MB holds, one that only a GPU's does.
    core: ClassVar[Mapping[str, Sequence[str]]] = {
        "cpu": ("float32-1M", "float32-10M"),
        "cuda": ("float32-1M", "float32-50M"),
    }
    # A last-level cache of tens of MB holds 6 and 12 MB, and an L2 of 50 MB a part of 60 MB (add_mul_exp's bytes).
    cold: ClassVar[Mapping[str, Sequence[str]]] = {
        "cpu": ("float32-500k", "float32-1M"),
        "cuda": ("float32-500k", "float32-1M", "float32-5M"),
    }

    def create_inputs(self, count: int) -> Inputs:
        """Return seeded inputs of `count` elements on `device`."""
        raise NotImplementedError

    def generate_test_cases(self) -> list[TestCase]:
        """Return one case per size; `dims` is (elements,)."""
        return [
            TestCase(name=name, dims=dims_of(name), create_inputs=partial(self.inputs_of, name))
            for name in self.cases[self.device]
        ]

    def inputs_of(self, case: str) -> Inputs:
        """Return the inputs of a case; a problem with cases of several dtypes says here how they differ."""
        return self.create_inputs(dims_of(case)[0])

    def random(self, count: int, salt: str) -> torch.Tensor:
        """Return `count` float32 normal values on `device`; equal salts give equal values on every machine."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        generator = torch.Generator().manual_seed(self.get_seed(f"{self.name}/{salt}"))
        values = torch.randn(min(count, PERIOD), generator=generator, dtype=torch.float32)
        return tiled(values.to(self.device), (count,))

    def subset(self, inputs: Inputs, output: torch.Tensor, step: int) -> tuple[Inputs, torch.Tensor]:
        """Return every `step`-th element, counted back from the last."""
        start = (output.numel() - 1) % step
        picked = tuple(value[start::step].contiguous() if _is_vector(value) else value for value in inputs)
        return picked, output[start::step].contiguous()


def _is_vector(value: object) -> bool:
    """Return whether an input is one of the long vectors, and not a scalar of the problem."""
    return getattr(value, "ndim", 0) == 1
