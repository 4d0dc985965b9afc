"""C = relu(A B + bias), row-major. Triton. float32, float16 and bfloat16.

Cost: 2 m n k + 2 m n FLOP; each array crosses memory at least once: of float32 4 (m k + k n + n + m n) bytes.
Versions:
  1  the kernel of matmul/triton.py, which adds and clamps before it stores. Unmeasured
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels._native.arguments import TensorLike
from kernels.matmul import new_output
from kernels.matmul import triton as product
from kernels.matmul_bias_relu import read_arguments

__all__ = ["SUPPORTS", "bind", "matmul_bias_relu"]

# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = product.SUPPORTS | {"dtypes": ("float32", "float16", "bfloat16")}


def bind(
    a: TensorLike,
    b: TensorLike,
    bias: TensorLike,
    *,
    out: TensorLike,
    stream: Any = None,
    threads: int | None = None,
) -> Callable[[], None]:
    """Check the arguments once; return a call without arguments that computes out.

    The arguments and errors are those of `matmul_bias_relu`. The call keeps the tensors alive, and uses the stream
    that was current when it was bound. Nothing is launched for an output without elements.
    """
    matrices, bias_ = read_arguments(a, b, bias, out, SUPPORTS)
    return product.bind_product("matmul_bias_relu", matrices, bias_, stream, threads)


def matmul_bias_relu(
    a: TensorLike,
    b: TensorLike,
    bias: TensorLike,
    *,
    out: Any = None,
    stream: Any = None,
    threads: int | None = None,
) -> Any:
    """Compute max(a b + bias, 0) with Triton and return it: arguments and errors of `kernels.matmul_bias_relu`.

    Args:
        a: float32, float16 or bfloat16, shape (m, k), contiguous, on a CUDA device; where Triton interprets, on the
            CPU.
        threads: None for tensors on a CUDA device.

    Raises:
        kernels._native.errors.LaunchError: Triton cannot compile the kernel, or the driver refuses to launch it.
    """
    if out is None:
        out = new_output(a, b, SUPPORTS)
    bind(a, b, bias, out=out, stream=stream, threads=threads)()
    return out
