"""matmul: C = A B, row-major. On CUDA also of float16 and bfloat16 (C too), int8 (C int32) and float8_e4m3fn (float32).

All implementations sum float16 and bfloat16 up in float32 and round once. Int8 is exact. An operation of int8 is
counted as a FLOP is, and read as an OP (GOPS). Its roof is the peak in int8. float8_e4m3fn is of compute capability 9.0
alone, and has no roof here. Its speed is unmeasured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import kernel_velocity as kv
from kernel_velocity.names import ITEM_BYTES
from kernel_velocity.problem.accuracy import compare
from kernel_velocity.problem.problem import Problem, Verdict, drawn_count, tiled

if TYPE_CHECKING:
    import torch

PERIOD = 1_048_583  # random numbers drawn for a factor, above 1024^2 and prime: no tile repeats another at its place
FLOAT8 = "float8_e4m3fn"
# What its factors are drawn from. Products are multiples of .25, and the standard deviation of a sum of 4096 is 260.
# Hopper's tensor cores keep 14 bits of a sum (kernels/matmul/matmul_hopper.cu), which hold 7.8 deviations exactly.
EXACT = (-3.0, -2.0, -1.5, -1.0, 1.0, 1.5, 2.0, 3.0)
_OUTPUTS = {"int8": "int32", FLOAT8: "float32"}  # of the others as the inputs
# Half a unit in the last place by rounding the sum, and as in add_mul_exp 2^-8 of that for the sum's own error.
_ROUNDED = {"float16": 2.0**-11 * (1 + 2.0**-8), "bfloat16": 2.0**-8 * (1 + 2.0**-8)}


def cubes(*sizes: int, dtype: str = "float32") -> tuple[str, ...]:
    """Return the cases of n x n x n."""
    return tuple(f"{dtype}-{n}x{n}x{n}" for n in sizes)


def moved(m: int, n: int, k: int, dtype: str) -> int:
    """Return the bytes of all matrices, each moved once. Of items of one byte C has 4."""
    return ITEM_BYTES[dtype] * (m * k + k * n) + (4 if ITEM_BYTES[dtype] == 1 else ITEM_BYTES[dtype]) * m * n


def factors(seed: str, m: int, n: int, k: int, *, dtype: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a (m, k) and b (k, n) on `device`: seeded normal values rounded to the dtype. All numbers of int8.

    Of float8_e4m3fn those of EXACT, so that sums are exact, and one dropped term is seen.

    Larger factors repeat PERIOD values: two of 4096 x 4096 took .2 s to draw, twice a round (an H200's host).

    Raises:
        NotImplementedError: float8_e4m3fn, and the GPU is no Hopper.
    """
    import torch

    if dtype == FLOAT8 and device == "cuda" and (capability := torch.cuda.get_device_capability()) != (9, 0):
        wanted = "compute capability 9.0 multiplies float8_e4m3fn here"
        raise NotImplementedError(f"{wanted}, this GPU has {'.'.join(map(str, capability))}")
    generator = torch.Generator("cpu").manual_seed(Problem.get_seed(f"{seed}/{m}x{n}x{k}"))

    def draw(rows: int, columns: int) -> torch.Tensor:
        count = min(rows * columns, drawn_count(PERIOD))
        with torch.device("cpu"):
            if dtype == "int8":
                values = torch.randint(-128, 128, (count,), generator=generator, dtype=torch.int8)
            elif dtype == FLOAT8:
                values = torch.tensor(EXACT, dtype=torch.float32)[
                    torch.randint(len(EXACT), (count,), generator=generator)
                ]
            else:
                values = torch.randn(count, generator=generator, dtype=torch.float32)
        return tiled(values.to(getattr(torch, dtype)).to(device), (rows, columns))

    return draw(m, k), draw(k, n)


def atol(k: int) -> float:
    """Return the absolute error allowed for inner products of length k of normal values.

    A float32 inner product errs by at most about sqrt(k) u sum|a_i b_i| with high probability (Higham and Mary,
    A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019), u = 2^-24. For
    normal values the sum is about (2/pi) k. Four times that: .01 at k = 1024, where a dropped term errs by 1.
    """
    return float(4 * k**0.5 * 2.0**-24 * 0.64 * k)


def tolerance(dtype: str, k: int) -> kv.Tolerance:
    """Return what an output of a dtype may differ by after inner products of length k."""
    if dtype in ("int32", FLOAT8):
        source = "matmul: int8 is exact, and so are sums of these float8 numbers"
        return kv.Tolerance(rtol=0.0, atol=0.0, source=source)
    what = f"rounded to {dtype}, and " if dtype in _ROUNDED else ""
    source = f"matmul: {what}rounding of inner products of length {k}"
    return kv.Tolerance(rtol=_ROUNDED.get(dtype, 1e-5), atol=atol(k), source=source)


def within_tolerance(expected: torch.Tensor, actual: torch.Tensor) -> Verdict:
    """Return whether every element is within the tolerance of the output's dtype, and the error figures."""
    k = expected.shape[-1]  # the cases are cubes: a row of the result is as long as an inner product
    dtype = str(actual.dtype).removeprefix("torch.")
    compared_as = dtype if dtype in (*_ROUNDED, "int32") else "float32"
    of_float8 = compared_as == str(expected.dtype).removeprefix("torch.") == "float32"
    details = compare(expected, actual, tolerance(FLOAT8 if of_float8 else compared_as, k), dtype=compared_as)
    return details["right"], details


@kv.benchmark(
    cases={
        "cpu": cubes(128, 256, 512, 768, 1024),
        "cuda": (
            *cubes(512, 1024, 2048, 4096, 8192),
            *cubes(1024, 4096, dtype="float16"),
            *cubes(1024, 4096, dtype="bfloat16"),
            *cubes(1024, 4096, dtype="int8"),
            *cubes(1024, 4096, dtype=FLOAT8),
        ),
    },
    # On CUDA: CUDA cores and tensor cores.
    core={"cpu": cubes(256, 512), "cuda": (*cubes(1024), *cubes(4096, dtype="bfloat16"))},
    cold={"cpu": cubes(128, 256), "cuda": cubes(512, 1024, 2048)},
    flops=lambda m, n, k: 2 * m * n * k,  # a multiplication and an addition per term, as BLAS counts
    bytes=moved,
    unfused_bytes=moved,  # one operation
    rows=("a",),
    signature="void solution(const float* a, const float* b, float* out, size_t m, size_t n, size_t k)",
    compiled=True,
    counts=("float32-128x128x128",),
)
class Matmul:
    """a: (m, k), b: (k, n) -> out: (m, n), all row-major, out as a but for `_OUTPUTS`."""

    def inputs(m, n, k, dtype, device):
        """Return a and b."""
        return factors("matmul", m, n, k, dtype=dtype, device=device)

    def reference(a, b):
        """Return a @ b as PyTorch computes it, in full float32 (TF32 is off by default). Of int8 by `torch._int_mm`.

        Of float8_e4m3fn by `torch._scaled_mm`, which wants the columns of b contiguous: the time has a transposition.
        Its fast accumulation is what our kernel has: the sums of the tensor cores.

        Raises:
            NotImplementedError: int8, and this PyTorch does not multiply it.
        """
        import torch

        if a.dtype == torch.float8_e4m3fn:
            scale = torch.ones((), device=a.device)
            by_columns = b.t().contiguous().t()
            return torch._scaled_mm(a, by_columns, scale, scale, out_dtype=torch.float32, use_fast_accum=True)
        if a.dtype != torch.int8:
            return torch.matmul(a, b)
        if not hasattr(torch, "_int_mm"):
            raise NotImplementedError(f"PyTorch {torch.__version__} has no _int_mm, products of int8")
        return torch._int_mm(a, b)

    def expected(a, b):
        """Return the product in float64. Of int8, where that is exact, as int32, and of float8_e4m3fn as float32.

        By that `within_tolerance` knows its inputs, whose tolerance is another one than that of float32's products.
        """
        import torch

        product = torch.matmul(a.double(), b.double())
        dtype = _OUTPUTS.get(str(a.dtype).removeprefix("torch."))
        return product.to(getattr(torch, dtype)) if dtype else product

    verify = within_tolerance

    def empty(a, b):
        """Return an uninitialised (m, n) tensor."""
        import torch

        dtype = str(a.dtype).removeprefix("torch.")
        return a.new_empty((a.shape[0], b.shape[1]), dtype=getattr(torch, _OUTPUTS.get(dtype, dtype)))

    native = kv.module("kernels.matmul")
    triton = kv.module("kernels.matmul.triton", device="cuda")
