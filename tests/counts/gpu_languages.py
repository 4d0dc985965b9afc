"""A kernel that doubles numbers in each of Python's languages for GPUs, compiled by the recipes of the documentation.

With KERNEL... it prints what is counted of each ("scale_numba sm_90"), one line of JSON a kernel.
mypackage has the kernels. Languages lie in folders of their own, which only these processes see.
"""

import hashlib
import json
import os
import re
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/gpu-languages.md"
TRITON, LANGUAGES = ROOT / ".asv/triton", ROOT / ".asv/languages"
TOOLS = [LANGUAGES / "nvidia/cu13/bin", TRITON / "triton/backends/nvidia/bin"]  # Numba wants the newer ptxas
KERNELS = {
    "triton": """
import triton
import triton.language as tl

@triton.jit
def scale(x, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)
""",
    "helion": """
import helion
import helion.language as hl
import torch

@helion.kernel(config=helion.Config(block_sizes=[1024], num_warps=4))
def scale(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for at in hl.tile(x.size(0)):
        out[at] = 2.0 * x[at]
    return out
""",
    "numba": """
from numba import cuda

@cuda.jit
def scale(x, out, n):
    at = cuda.grid(1)
    if at < n:
        out[at] = x[at] + x[at]
""",
    "cutile": """
import cuda.tile as ct

@ct.kernel
def scale(x, out, block: ct.Constant[int]):
    at = ct.bid(0)
    ct.store(out, index=(at,), tile=2.0 * ct.load(x, index=(at,), shape=(block,)))
""",
    "cute": """
from cutlass import cute

@cute.kernel
def doubled(x: cute.Tensor, out: cute.Tensor):
    at = cute.arch.block_idx()[0] * 256 + cute.arch.thread_idx()[0]
    if at < cute.size(x):
        out[at] = x[at] * 2.0

@cute.jit
def scale(x: cute.Tensor, out: cute.Tensor):
    doubled(x, out).launch(grid=[cute.ceil_div(cute.size(x), 256), 1, 1], block=[256, 1, 1])
""",
}


def require_languages() -> None:
    """Skip where the languages are not. Fail in CI."""
    if not (TRITON.is_dir() and LANGUAGES.is_dir()):
        reason = "no languages for GPUs: .ci/run puts them into .asv/triton and .asv/languages"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def recipes() -> str:
    """Return the functions that the page of the documentation has."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return "\n\n".join(block for block in blocks if block.startswith("def "))


def compiled(folder, names, kernels=KERNELS, *, paths=(TRITON, LANGUAGES), **variables):
    """Return what is counted of each kernel, or why it is n/a.

    Figures, opcodes, what is missing, occupancies, machine code, hash.
    """
    package = folder / "mypackage"
    package.mkdir(parents=True)
    for language, text in kernels.items():
        (package / f"{language}_kernels.py").write_text(text)
    (folder / "recipes.py").write_text(recipes())
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    environ |= {
        "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT / "tools", *paths))),
        "PATH": os.pathsep.join([*map(str, TOOLS), os.environ.get("PATH", os.defpath)]),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "CUDA_PATH": str(LANGUAGES / "nvidia" / "cu13"),  # NVVM and NVRTC, which it looks for in site folders else
        "TMPDIR": str(folder),
    }
    command = [sys.executable, "-W", "ignore", __file__, *names]
    done = subprocess.run(command, cwd=folder, env=environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))


def main(names):
    """Print what is counted of kernels."""
    for path in (path for path in sys.path.copy() if Path(path) in (TRITON, LANGUAGES)):
        site.addsitedir(path)  # numba-cuda takes the place of numba.cuda, and CuTe DSL lies elsewhere
    import recipes as of_the_page

    from kernel_velocity import gpu_code
    from kernel_velocity.counts.c_call import NotCountedError
    from kernel_velocity.counts.gpu_code import GpuCode

    for name in names:
        recipe, _, architecture = name.partition(" ")
        function, codes = getattr(of_the_page, recipe), []

        def code_of(architecture, function=function, codes=codes):
            codes.append(function(architecture))
            return codes[-1]

        code_of.__name__ = recipe
        try:
            made = gpu_code(code_of, [architecture]).compiled(Path(), architecture, Path("cache"))
        except NotCountedError as error:
            print(json.dumps(str(error)))
            continue
        code = codes[0][0] if isinstance(codes[0], tuple) else codes[0]
        kernels = GpuCode(code if isinstance(code, bytes) else code.encode())
        digest = hashlib.sha256(kernels.whole()).hexdigest() if kernels.kernels else None  # None: of AMD
        parts = made.figures, made.details, made.missing, made.occupancies, made.code, digest
        print(json.dumps([dict(part) if isinstance(part, Mapping) else part for part in parts]))


if __name__ == "__main__":
    main(sys.argv[1:])
