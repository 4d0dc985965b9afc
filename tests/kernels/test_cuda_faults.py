"""Faults planted in the real CUDA kernels: the checks of test_cuda_on_host.py find each of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kernels
from tests.cuda_on_host.calling import KernelError
from tests.kernels import references, test_cuda_on_host
from tests.kernels.references import Case

pytestmark = pytest.mark.slow  # each compiles a kernel
FOLDER = Path(kernels.__file__).parent


class Planted:
    """Builds a kernel with a part of its source replaced. For `checks`, in place of the fixture `on_host`."""

    def __init__(self, on_host, folder: Path, part: str, by: str) -> None:
        self.on_host, self.folder, self.part, self.by = on_host, folder, part, by

    def kernel(self, name: str, file: str | None = None):
        source = self.folder / "kernels" / name / f"{file or name}.cu"
        if not source.exists():
            shutil.copytree(
                FOLDER / "_native", self.folder / "kernels" / "_native", ignore=shutil.ignore_patterns("*.so")
            )
            shutil.copytree(FOLDER / name, source.parent)
            files = [path for path in source.parent.glob("*.[ch]*") if self.part in path.read_text(encoding="utf-8")]
            assert files, "the kernel has changed: plant the fault anew"
            for path in files:
                path.write_text(path.read_text(encoding="utf-8").replace(self.part, self.by), encoding="utf-8")
        return self.on_host.library(source)


def cases(kernel: str) -> list[tuple[Case, dict]]:
    """Return what the checks run a kernel with: cases, and on how many processors."""
    if kernel == "matmul_tensor":
        shapes = ((72, 80, 144), (67, 65, 37))
        return [(references.integer_product(dtype, *shape), {}) for dtype in ("bfloat16", "int8") for shape in shapes]
    if kernel == "matmul":
        products = [references.normal_product("float32", *shape) for shape in test_cuda_on_host.SHAPES]
        return [(case, {"processors": processors}) for case in products for processors in (1, 1000)]
    found = [(references.elementwise(kernel, n), {}) for n in test_cuda_on_host.SIZES[4]]
    found.append((references.elementwise(kernel, 17 * 4096), {"processors": 1}))
    if kernel == "quantize_int8":
        every_kind, scales = test_cuda_on_host.every_kind, test_cuda_on_host.SCALES
        found += [(references.quantize_int8(every_kind(scale), scale, 3), {}) for scale in scales]
    return found


FAULTS = {
    "matmul: no barrier between copying a tile and reading it": (
        "__syncthreads();",
        "",
        "which nobody wrote|a race|an unawaited copy",
    ),
    "matmul: a pass awaited too late": (
        "__pipeline_wait_prior(STAGES - 2);",
        "__pipeline_wait_prior(STAGES - 1);",
        "an unawaited copy",
    ),
    "matmul: one stage too few": ("now == 0 ? STAGES - 1 : now - 1;", "now;", "a race|wrong|copy"),
    "matmul: reads past the last column": (
        "return row < rows ? columns : 0;",
        "return row < rows ? 1 : 0;",
        "bytes at byte [0-9]+ of array [01], which has|wrong",
    ),
    "matmul: writes past the last row": (
        "(row >= rows || column >= columns) return;",
        "(column >= columns) return;",
        "writes",
    ),
    "add_mul_exp: one element too many": ("if (last < n)", "if (last <= n)", "reads 4 bytes"),
    "add_mul_exp: a block's second part begins too early": ("THREADS * AHEAD;\n    for", "THREADS;\n    for", "a race"),
    "add_mul_exp: no tail": ("if (last < n)", "if (false)", "^$"),  # NaN where numbers are: an assertion without a text
    "quantize_int8: a vector too many": ("words = n / COUNT,", "words = (n + COUNT - 1) / COUNT,", "reads 16 bytes"),
    "quantize_int8: a product with the reciprocal": (
        "kv::quotient(bounded, scale, reciprocal)",
        "bounded * reciprocal",
        "wrong",
    ),
    "quantize_int8: scales for which remainders are not exact": ("kv::is_safe_divisor(scale) && ", "", "wrong"),
    "quantize_int8: the last vector left out": (
        "i + j * THREADS < words)\n                __stcs",
        "i + j * THREADS < words - 1) __stcs",
        "wrong",
    ),
    "matmul_tensor: no barrier between copying a tile and reading it": (
        "__syncthreads();  ",
        "",
        "which nobody wrote|a race|an unawaited copy",
    ),
    "matmul_tensor: a pass awaited too late": (
        "(TENSOR_STAGES - 2);",
        "(TENSOR_STAGES - 1);",
        "an unawaited copy|which nobody wrote",
    ),
    "matmul_tensor: copies under way to where the sums go": ("__pipeline_wait_prior(0);", "", "an unawaited copy"),
    "matmul_tensor: a row of C too many": (
        "if (row >= m || column >= n) return;",
        "if (column >= n) return;",
        "writes",
    ),
    "matmul_tensor: bytes transposed wrongly": ("0x7632", "0x6732", "wrong"),
    "matmul_tensor: words of the wrong columns": ("(j & HALF ? -half : half)", "0", "wrong"),
    "matmul_tensor: B's matrices in another order": ("lane % 8 + lane / 16 * 8", "lane % 16", "wrong"),
    "matmul_tensor: k is not masked": (
        "if (i * PER + j < inside)",
        "if (inside > 0)",
        "reads [12] bytes at byte [0-9]+ of array",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_seen(on_host, tmp_path, name):
    part, by, seen = FAULTS[name]
    planted = Planted(on_host, tmp_path, part, by)
    with pytest.raises(AssertionError, match=seen):  # KernelError is one
        for case, how in cases(name.partition(":")[0]):
            test_cuda_on_host.run(planted, case, **how)


ALIGNMENTS = {
    "add_mul_exp": ("kv::is_aligned(y, 16) && ", 1),
    "quantize_int8": ("kv::is_aligned(x, 16) && ", 0),
    "matmul": (" && kv::is_aligned(c, 16)", 2),
}


@pytest.mark.parametrize("kernel", ALIGNMENTS)
def test_misaligned_vector_is_seen(on_host, tmp_path, kernel):
    part, which = ALIGNMENTS[kernel]
    is_product = kernel == "matmul"
    case = references.normal_product("float32", 64, 64, 64) if is_product else references.elementwise(kernel, 1024)
    shifts = tuple(int(tensor == which) for tensor in range(len(case.arrays) + 1))
    with pytest.raises(KernelError, match=r"16 bytes at 0x[0-9a-f]+, an address that is not divisible by 16"):
        test_cuda_on_host.run(Planted(on_host, tmp_path, part, ""), case, shifts)
