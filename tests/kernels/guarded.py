"""A call of a kernel on a device, its tensors amid poisoned memory: what is forgotten, or hit beside, is seen."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kernels
from tests.kernels.references import Case

GUARD = 1024  # elements on either side: a block of 256 threads that overruns by a vector each stays within
GUARD_VALUE = 77
NAN = float("nan")
# What a kernel that forgets an element leaves behind.
POISON = {"float64": NAN, "float32": NAN, "float16": NAN, "bfloat16": NAN, "int8": 77, "int32": 77}
POISON["float8_e4m3fn"] = NAN


class GuardedOutput:
    """An output that begins `offset` elements behind an aligned address, with guards before and behind it."""

    def __init__(self, shape: tuple[int, ...], dtype: str, device: str, offset: int = 0) -> None:
        import torch

        count = int(np.prod(shape, dtype=np.int64))
        self.dtype = dtype
        self.begin, self.end = GUARD + offset, GUARD + offset + count
        self.memory = torch.full((self.end + GUARD,), GUARD_VALUE, dtype=getattr(torch, dtype), device=device)
        self.tensor = self.memory[self.begin : self.end].view(shape)
        self.poison()

    def poison(self) -> None:
        self.tensor.fill_(POISON[self.dtype])

    def host(self) -> np.ndarray:
        """Copy all of it, guards included, on PyTorch's current stream. Returns when it is copied."""
        return to_numpy(self.memory)

    def read(self, host: np.ndarray) -> np.ndarray:
        """Return the output of a copy, whose guards must be whole."""
        outside = np.concatenate([host[: self.begin], host[self.end :]])
        assert np.all(outside == GUARD_VALUE), f"{np.sum(outside != GUARD_VALUE)} elements beside the output written"
        return host[self.begin : self.end].reshape(self.tensor.shape)

    def is_poison(self, host: np.ndarray) -> bool:
        """Return whether nothing of a copy has been written."""
        return np.array_equal(self.read(host), np.full(self.tensor.shape, POISON[self.dtype]), equal_nan=True)


def to_numpy(tensor: Any) -> np.ndarray:
    """Return the tensor's numbers. Those of dtypes that numpy lacks as float32."""
    lacks = str(tensor.dtype) in ("torch.bfloat16", "torch.float8_e4m3fn")
    numbers: np.ndarray = (tensor.float() if lacks else tensor).cpu().numpy()
    return numbers


def put(array: np.ndarray, device: str, offset: int = 0, dtype: str = "float32") -> Any:
    """Return the array's numbers on a device, `offset` elements behind an aligned address, poison on either side."""
    import torch

    size = GUARD + offset + array.size + GUARD
    memory = torch.full((size,), POISON[dtype], dtype=getattr(torch, dtype), device=device)
    tensor = memory[GUARD + offset : GUARD + offset + array.size].view(array.shape)
    # A copy: numpy arrays that may not be written make PyTorch warn.
    return tensor.copy_(torch.from_numpy(np.array(array, order="C")))


class Prepared:
    """A case on a device: `call` and `bind` with the kernel's keywords, and `check` of what the output holds.

    `offsets` say how many elements behind an aligned address each input and then the output begins. None: all at one.
    """

    def __init__(self, case: Case, device: str, offsets: Sequence[int] = ()) -> None:

        self.case, self.device = case, device
        *of_inputs, of_output = offsets or (0,) * (len(case.arrays) + 1)
        placed = zip(case.arrays, of_inputs, strict=True)
        self.inputs = [put(array, device, offset, case.inputs) for array, offset in placed]
        self.out = GuardedOutput(case.shape, case.dtype, device, of_output)

    def call(self, **keywords: Any) -> None:
        result = getattr(kernels, self.case.kernel)(*self.inputs, *self.case.scalars, out=self.out.tensor, **keywords)
        assert result is self.out.tensor

    def bind(self, **keywords: Any) -> Callable[[], int]:
        module = importlib.import_module(f"kernels.{self.case.kernel}")
        return module.bind(*self.inputs, *self.case.scalars, out=self.out.tensor, **keywords)

    def check(self, host: np.ndarray | None = None) -> np.ndarray:
        """Check the output (or an earlier copy of it), its guards and that the inputs are as they were. Return it."""
        output = self.out.read(self.out.host() if host is None else host)
        self.case.check(output, self.device.split(":")[0])
        for tensor, array in zip(self.inputs, self.case.arrays, strict=True):
            assert np.array_equal(to_numpy(tensor), array, equal_nan=True), "an input was written"
        return output


def run(case: Case, device: str, offsets: Sequence[int] = ()) -> np.ndarray:
    """Call the kernel directly and twice through `bind`, check each time, and return the output."""
    prepared = Prepared(case, device, offsets)
    prepared.call()
    direct = prepared.check()
    bound = prepared.bind()
    for _ in range(2):
        prepared.out.poison()
        assert bound() == 0
        assert prepared.check().tobytes() == direct.tobytes(), "the same call gave other bits"
    return direct
