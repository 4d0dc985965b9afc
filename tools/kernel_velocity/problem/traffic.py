"""Count the bytes that PyTorch's operations move one by one: the memory traffic of a sequence that is not fused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

_MOVE_NOTHING = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
_READ_NO_TARGET = ("copy_", "fill_", "zero_", "bernoulli_", "normal_", "uniform_")  # that they write in place


def traffic(function: Callable[..., object], inputs: Callable[[], Iterable[Any]]) -> int | None:
    """Return the least bytes that a function's operations move, each one reading its inputs and writing its results.

    Views move nothing, numbers (tensors without dimensions) neither. An operation that reads only some rows of an input
    counts all of it. `inputs` makes the arguments. Tensors of the device "meta" serve, which have no values.

    Returns: None where PyTorch is missing, or an operation cannot run like this.
    """
    try:
        counter, arguments = _counter()(), inputs()
        with counter:
            function(*arguments)
    except (AssertionError, ImportError, MemoryError, RuntimeError, TypeError, ValueError):
        return None
    total: int = counter.moved
    return total


@cache
def _counter() -> Any:
    import torch  # noqa: PLC0415 - discovery must work without torch
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
        moved = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # to skip it would import it, 2 s

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = operation(*args, **(kwargs or {}))
            name = operation._schema.name.removeprefix("aten::")
            if not operation.is_view and name not in _MOVE_NOTHING:
                read = args[1:] if name in _READ_NO_TARGET else args
                for value in tree_leaves((read, kwargs, result)):
                    if isinstance(value, torch.Tensor) and value.ndim:
                        sizes = (size for size, stride in zip(value.shape, value.stride(), strict=True) if stride)
                        self.moved += math.prod(sizes) * value.element_size()  # an expanded axis has one element
            return result

    return Counter
