"""Checks of what Triton makes of the kernels for GPUs that are not here. Run by triton_calls.py, not interpreted.

Triton compiles for any of its targets without a driver. The ptxas that it brings then says what of registers it spills.
"""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kernels._native.arguments import ITEM_SIZES
from kernels._native.errors import ArgumentValueError
from tests.kernels.triton_calls import module

ARCHITECTURES = {80: "sm_80", 90: "sm_90a"}
TYPES = {"float32": "*fp32", "float16": "*fp16", "bfloat16": "*bf16"}
FACTORS = TYPES | {"int8": "*i8"}
ALIGNED = [["tt.divisibility", 16]]  # what Triton knows of a pointer, or of a size


def compiled(kernel: Any, types: dict[str, str], options: dict[str, int], aligned: str, architecture: int) -> str:
    """Return the PTX of a kernel. Ptxas must take it, and spill nothing, of sizes of 64 bits next to nothing.

    Args:
        types: parameter -> Triton's name of its type, or a number that is known at compile time (1 is, when it is
            given for a size). options: the kernel's constants, and `num_warps` and so on. aligned: names of the
            parameters, separated by blanks, that are divisible by 16.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = list(kernel.arg_names)
    fixed = {name: int(kind) for name, kind in types.items() if kind.isdecimal()}
    fixed |= {name: value for name, value in options.items() if name in names}
    source = ASTSource(
        kernel,
        {name: "constexpr" if name in fixed else types[name] for name in names},
        {(names.index(name),): value for name, value in fixed.items()},
        {(names.index(name),): ALIGNED for name in aligned.split()},
    )
    rest = {name: value for name, value in options.items() if name not in names}
    ptx: str = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=rest).asm["ptx"]
    text = _ptxas(Path(triton.__file__).parent, ptx, ARCHITECTURES[architecture])
    spills = [int(count) for count in re.findall(r"(\d+) bytes spill", text)]
    assert len(spills) == 2 and max(spills) <= (16 if "i64" in types.values() else 0), text
    assert ".ftz" not in ptx  # subnormal numbers are kept
    return ptx


def _ptxas(triton: Path, ptx: str, architecture: str) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        program = triton / "backends" / "nvidia" / "bin" / "ptxas"
        command = [str(program), "-v", f"--gpu-name={architecture}", file.name, "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@functools.cache
def elementwise(kernel: str, dtype: str, architecture: int, n: str, aligned: str) -> str:
    """Return the PTX of an element-wise kernel for tensors of a dtype, whose size is of Triton's type `n`."""
    result = module(kernel)
    pointers = ("x", "y", "out") if kernel == "add_mul_exp" else ("x", "out")
    types = dict.fromkeys(pointers, TYPES[dtype]) | {"n": n, "scale": "fp32", "zero_point": "fp32"}
    if kernel == "quantize_int8":
        types["out"] = "*i8"
    ragged = "n" not in aligned.split()
    options = {"block": result.BLOCK_BYTES // ITEM_SIZES[dtype], "ragged": ragged, "num_warps": result.WARPS}
    return compiled(vars(result)[f"{kernel}_kernel"], types, options, aligned, architecture)


def check_elementwise_accesses_16_bytes():
    for architecture, dtype in itertools.product(ARCHITECTURES, TYPES):
        for kernel, tensors in (("add_mul_exp", "x y out"), ("quantize_int8", "x out")):
            ptx = elementwise(kernel, dtype, architecture, "i32", f"{tensors} n")
            accesses = re.findall(r"(?:ld|st)\.(?:global|shared)\S*", ptx)
            assert accesses and set(accesses) == {"ld.global.v4.b32", "st.global.v4.b32"}
            ragged = re.findall(
                r"(?:ld|st)\.(?:global|shared)\S*", elementwise(kernel, dtype, architecture, "i32", tensors)
            )
            # The rest is one element per thread.
            assert sorted(access for access in ragged if ".v4." in access) == sorted(accesses)
            assert len(ragged) - len(accesses) == len(tensors.split())


def check_rounding_to_two_bytes():
    for architecture, (dtype, short) in itertools.product(ARCHITECTURES, (("float16", "f16"), ("bfloat16", "bf16"))):
        ptx = elementwise("add_mul_exp", dtype, architecture, "i32", "x y out n")
        assert re.findall(r"cvt\.\S*\.f32", ptx)
        assert set(re.findall(r"cvt\.\S*\.f32", ptx)) == {f"cvt.rn.{short}x2.f32"}


def check_exp_and_division():
    for architecture, dtype in itertools.product(ARCHITECTURES, TYPES):
        assert "ex2" not in elementwise("add_mul_exp", dtype, architecture, "i32", "x y out n")
        ptx = elementwise("quantize_int8", dtype, architecture, "i32", "x out n")
        assert set(re.findall(r"(?:div|rcp)\.\S+", ptx)) == {"div.rn.f32"}


def check_elementwise_of_other_sizes():
    for architecture, n in itertools.product(ARCHITECTURES, ("1", "i32", "i64")):
        elementwise("add_mul_exp", "float32", architecture, n, "")
        elementwise("quantize_int8", "float16", architecture, n, "")


def product(
    sizes: str, aligned: str, architecture: int, options: dict[str, int], dtype: str = "float32", *, bias: bool = False
) -> str:
    """Return the PTX of the matrix product, or of relu(a b + bias). Sizes m, n, k are of these Triton types."""
    types = dict.fromkeys("abc", FACTORS[dtype]) | ({"c": "*i32"} if dtype == "int8" else {})
    types |= dict(zip("mnk", sizes.split(), strict=True)) | ({"bias": FACTORS[dtype]} if bias else {})
    options = options if bias else {"bias": None, **options}
    return compiled(module("matmul").matmul_kernel, types, options, aligned, architecture)


def check_products_are_of_float32():
    result = module("matmul")
    for architecture, options in itertools.product(ARCHITECTURES, (result.LARGE, result.SMALL)):
        ptx = product("i32 i32 i32", "a b c m n k", architecture, options)
        assert "fma.rn.f32" in ptx
        assert "mma" not in ptx and "tf32" not in ptx


def check_products_on_tensor_cores():
    result = module("matmul")
    options = (result.LARGE_TENSOR, result.SMALL_TENSOR)
    for architecture, dtype, option in itertools.product(ARCHITECTURES, ("float16", "bfloat16", "int8"), options):
        ptx = product("i32 i32 i32", "a b c m n k", architecture, option, dtype)
        instruction = "mma.sync" if architecture == 80 else "wgmma.mma_async"
        assert instruction in ptx, (architecture, dtype)
    for architecture, option in itertools.product(ARCHITECTURES, options):
        product("i64 i64 i64", "a b c m n k", architecture, option, "bfloat16")


def check_matmul_bias_relu():
    result = module("matmul")
    kinds = [("float32", result.LARGE), ("bfloat16", result.LARGE_TENSOR), ("float16", result.RAGGED_TENSOR)]
    for architecture, (dtype, options) in itertools.product(ARCHITECTURES, kinds):
        aligned = "a b c m n k bias" if options is not result.RAGGED_TENSOR else ""
        ptx = product("i32 i32 i32", aligned, architecture, options, dtype, bias=True)
        assert re.search(r"setp\.lt\.f32", ptx)


def check_quantize_int8_rows():
    result = module("quantize_int8_rows")
    kinds = [("float32", 100), ("float32", 4096), ("float16", 4096), ("bfloat16", result.MOST + 16)]
    for architecture, (dtype, columns) in itertools.product(ARCHITECTURES, kinds):
        types = {"x": TYPES[dtype], "out": "*i8", "scales": "*fp32", "columns": "i32"}
        kernel, options = result.quantize_int8_rows_kernel, result.configuration(columns)
        ptx = compiled(kernel, types, options, "x out columns" if columns % 16 == 0 else "", architecture)
        assert set(re.findall(r"(?:div|rcp)\.\S+", ptx)) == {"div.rn.f32"}
        if columns % 16 == 0:
            loads = set(re.findall(r"ld\.global\S*", ptx))
            assert loads == {"ld.global.v4.b32"}, loads


def check_matmul_of_other_sizes():
    result = module("matmul")
    for architecture, options in itertools.product(ARCHITECTURES, (result.LARGE, result.SMALL)):
        for sizes in ("i32 i32 i32", "i64 i64 i64"):
            product(sizes, "", architecture, options)
    # A size of 1 takes code away, so that what is left is compiled once of each
    for architecture, options in zip(ARCHITECTURES, (result.LARGE, result.SMALL), strict=True):
        for sizes in ("1 1 1", "1 i32 i32", "i32 1 i32", "i32 i32 1"):
            product(sizes, "", architecture, options)
    for architecture, dtype in itertools.product(ARCHITECTURES, ("bfloat16", "int8")):
        for sizes in ("1 1 1", "i64 i64 i64"):
            product(sizes, "", architecture, result.RAGGED_TENSOR, dtype)


def check_a_gpu_is_wanted():
    import torch

    x = torch.zeros(4, 4)
    for kernel, arguments in (("add_mul_exp", (x, x)), ("quantize_int8", (x, 1.0, 0)), ("matmul", (x, x))):
        assert module(kernel).SUPPORTS["devices"] == ("cuda",)
        with pytest.raises(ArgumentValueError, match=r": got device cpu, wanted cuda: Triton compiles for CUDA"):
            getattr(module(kernel), kernel)(*arguments)
