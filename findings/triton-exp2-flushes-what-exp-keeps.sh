#!/usr/bin/env bash
# Triton 3.7.1: tl.exp keeps subnormal results, tl.exp2 flushes them to 0
#
# Expected: one rule for subnormals in one compiler: exp, exp2, sqrt and rsqrt of float32 keep them, because nothing
#   asks for a flush, and products and sums keep them.
# Observed: for sm_90 tl.exp is `ex2.approx.f32` behind a multiplication, tl.exp2 is `ex2.approx.ftz.f32`, and tl.sqrt
#   and tl.rsqrt are `.ftz`, too. So exp2(-130.0) is 0 and exp(-130.0 * ln 2) is 7e-40. For gfx942 tl.exp scales
#   around v_exp_f32 (v_ldexp_f32), and tl.exp2 is the bare v_exp_f32.
# Why it matters: exp(x) written as exp2(x * log2(e)) is the usual step to make softmax and attention faster. It is
#   fewer instructions and another function: values below 1.2e-38 become 0. A log or a quotient of them is then -inf
#   or nan. A comparison of the two versions has to have such inputs, and a relative tolerance has to name its floor.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q triton==3.7.1

cat > "$work/unary.py" <<'PYTHON'
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

NVIDIA, AMD = GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)


@triton.jit
def unary(x, y, function: tl.constexpr):
    lanes = tl.arange(0, 128)
    values = tl.load(x + lanes)
    if function == "exp":
        values = tl.exp(values)
    elif function == "exp2":
        values = tl.exp2(values)
    elif function == "sqrt":
        values = tl.sqrt(values)
    elif function == "rsqrt":
        values = tl.rsqrt(values)
    tl.store(y + lanes, values)


def instructions(function, target, kind, pattern):
    signature = {"x": "*fp32", "y": "*fp32", "function": "constexpr"}
    source = ASTSource(unary, signature=signature, constexprs={"function": function})
    return re.findall(pattern, triton.compile(source, target=target).asm[kind])


print("triton", triton.__version__)
nvidia = {
    function: instructions(function, NVIDIA, "ptx", r"\b(?:ex2|sqrt|rsqrt)\.approx[.\w]*")
    for function in ("exp", "exp2", "sqrt", "rsqrt")
}
amd = {function: instructions(function, AMD, "amdgcn", r"\bv_(?:exp|ldexp)_f32") for function in ("exp", "exp2")}
for target, table in ("sm_90", nvidia), ("gfx942", amd):
    for function, names in table.items():
        print(target, f"tl.{function}:", *names)
assert nvidia == {
    "exp": ["ex2.approx.f32"], "exp2": ["ex2.approx.ftz.f32"],
    "sqrt": ["sqrt.approx.ftz.f32"], "rsqrt": ["rsqrt.approx.ftz.f32"],
}, "no longer as stated"
assert amd == {"exp": ["v_exp_f32", "v_ldexp_f32"], "exp2": ["v_exp_f32"]}, "no longer as stated"
PYTHON
TRITON_CACHE_DIR="$work/cache" "$work/venv/bin/python" "$work/unary.py"
