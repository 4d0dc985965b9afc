#!/usr/bin/env bash
# Triton 3.7.1: tl.dot of float32 hands unrounded float32 bits to TF32 tensor cores; "tf32x3" rounds
#
# Expected: the default is TF32 (true, and documented), so float32 operands are rounded to TF32 before the product.
# Observed: for sm_80 and sm_90 the default and input_precision="tf32" convert nothing: no `cvt.rna.tf32.f32` stands
#   before the `mma`. "tf32x3" has them. The tensor core drops the low 13 bits, so the operand is cut. (The PTX is
#   checked here. That GPUs cut is from triton's issue 4574: on an A100 only rounding by hand gave torch's result.)
# Why it matters: a cut operand is wrong by up to 2^-10 of itself and always towards 0; a rounded one by 2^-11, to both
#   sides. Errors of one sign do not cancel along k. A tolerance from "TF32 has 10 bits, rounded" is too narrow, and a
#   reference that rounds its inputs to TF32 is a second, different function. Emulate it by masking 13 bits.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q triton==3.7.1

cat > "$work/dot.py" <<'PYTHON'
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def dot(a, b, c, precision: tl.constexpr):
    rows = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    if precision == "default":
        product = tl.dot(tl.load(a + rows), tl.load(b + rows))
    else:
        product = tl.dot(tl.load(a + rows), tl.load(b + rows), input_precision=precision)
    tl.store(c + rows, product)


print("triton", triton.__version__)
for arch in 80, 90:
    for precision in "default", "tf32", "tf32x3":
        signature = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "precision": "constexpr"}
        source = ASTSource(dot, signature=signature, constexprs={"precision": precision})
        ptx = triton.compile(source, target=GPUTarget("cuda", arch, 32)).asm["ptx"]
        products = len(re.findall(r"mma\S*\.tf32\.tf32", ptx))
        roundings = len(re.findall(r"cvt\.rna\.tf32", ptx))
        print(f"sm_{arch} {precision}: {products} TF32 instructions, {roundings} roundings to TF32")
        assert products and (roundings > 0) == (precision == "tf32x3"), "no longer as stated"
PYTHON
TRITON_CACHE_DIR="$work/cache" "$work/venv/bin/python" "$work/dot.py"
