"""Calls of the Triton kernels on PyTorch's tensors, and the process that runs checks of them: triton must be there.

`python -m tests.kernels.triton_calls MODULE` runs every function of `tests.kernels.MODULE` whose name begins with
`check_`, and prints {"check", "seconds", "error"} of each as a line of JSON: "error" is null or the traceback. The
suite's own process must not import triton, beside which torch.compile behaves otherwise.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tests.kernels.guarded import Prepared
from tests.kernels.references import Case


def module(kernel: str) -> Any:
    """Return the module of a kernel's Triton implementation."""
    return import_module(f"kernels.{kernel}.triton")


class TritonCall(Prepared):
    """A case whose kernel is Triton's."""

    def call(self, **keywords: Any) -> None:
        function = getattr(module(self.case.kernel), self.case.kernel)
        assert function(*self.inputs, *self.case.scalars, out=self.out.tensor, **keywords) is self.out.tensor

    def bind(self, **keywords: Any) -> Callable[[], None]:
        bound = module(self.case.kernel).bind(*self.inputs, *self.case.scalars, out=self.out.tensor, **keywords)
        assert self.out.is_poison(self.out.host()), "binding ran it"
        return bound


def run(case: Case, offsets: Sequence[int] = (), device: str = "cpu") -> np.ndarray:
    """Call the kernel directly and through `bind`, check what it gave each time, and return it."""
    prepared = TritonCall(case, device, offsets)
    prepared.call()
    direct = prepared.check()
    prepared.out.poison()
    assert prepared.bind()() is None
    assert prepared.check().tobytes() == direct.tobytes(), "the same call gave other bits"
    return direct


def checks(name: str) -> dict[str, Callable[[], None]]:
    """Return the checks of a module of this folder, in order."""
    result = vars(import_module(f"tests.kernels.{name}"))
    return {key.removeprefix("check_"): value for key, value in result.items() if key.startswith("check_")}


def main(name: str) -> None:
    """Run all checks of a module, and print what came of each."""
    for check, function in checks(name).items():
        began, error = time.perf_counter(), None
        try:
            function()
        except Exception:  # noqa: BLE001 - any of them is the outcome of a check
            error = traceback.format_exc()
        print(json.dumps({"check": check, "seconds": time.perf_counter() - began, "error": error}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
