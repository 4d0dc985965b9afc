#!/usr/bin/env bash
# Triton 3.7.1 for AMD: the default tl.dot of float32 is XF32 on gfx942 (MI300), and full float32 before and after it
#
# Expected: one default for all AMD targets: plain float32.
# Observed: gfx942 gets v_mfma_f32_32x32x4_xf32, which reads 10 bits of the mantissa, as TF32 does. gfx90a and gfx950
#   get v_mfma_f32_32x32x2, twice as many, at full precision. Asking for "tf32" there is refused, and "ieee" makes
#   all three equal.
# Why it matters: the same commit measured on two generations of a fleet is two functions. A step from gfx942 to gfx950
#   looks like a slower kernel on a faster machine, and a tolerance that was set on gfx942 hides errors on the others.
#   Write input_precision down, make it part of the series' name, and compare generations only with "ieee".
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q triton==3.7.1

cat > "$work/dot.py" <<'PYTHON'
import re
from collections import Counter

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def dot(a, b, c, precision: tl.constexpr):
    block = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    if precision == "default":
        product = tl.dot(tl.load(a + block), tl.load(b + block))
    else:
        product = tl.dot(tl.load(a + block), tl.load(b + block), input_precision=precision)
    tl.store(c + block, product)


print("triton", triton.__version__)
for arch in "gfx90a", "gfx942", "gfx950":
    for precision in "default", "ieee":
        signature = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "precision": "constexpr"}
        source = ASTSource(dot, signature=signature, constexprs={"precision": precision})
        code = triton.compile(source, target=GPUTarget("hip", arch, 64)).asm["amdgcn"]
        products = Counter(re.findall(r"\bv_mfma\w+", code))
        print(arch, f"{precision}:", *(f"{count} x {name}" for name, count in products.items()))
        (name,) = products
        assert name.endswith("xf32") == (arch == "gfx942" and precision == "default"), "no longer as stated"
PYTHON
TRITON_CACHE_DIR="$work/cache" "$work/venv/bin/python" "$work/dot.py"
