#!/usr/bin/env bash
# Triton 3.7.1: tl.sum of float16 or bfloat16 adds in 16 bits, tl.cumsum of bfloat16 adds in float32
#
# Expected: a sum of 16-bit floats is accumulated in float32, as tl.dot, torch.sum and tl.sum of int8 (in int32) do.
# Observed: for sm_80 and sm_90 every addition of tl.sum(float16) and tl.sum(bfloat16) is a 16-bit one. tl.cumsum
#   converts bfloat16 to float32 first, and float16 not. `dtype=tl.float32` makes tl.sum convert as well.
# Why it matters: 256 + 1 is 256 in bfloat16. A kernel that loads bfloat16 and reduces it, as a norm or a softmax does,
#   can miss its tolerance by the length of a row alone. Write the conversion down. A reference in float32 shows the
#   error. A tolerance that was set by a run of the kernel hides it. The conversion changes the count of instructions
#   as well, so this repair is a step in the history.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q triton==3.7.1

cat > "$work/reduce.py" <<'PYTHON'
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def reduce(x, y, how: tl.constexpr):
    lanes = tl.arange(0, 1024)
    values = tl.load(x + lanes)
    if how == "sum":
        tl.store(y, tl.sum(values))
    elif how == "sum, dtype=float32":
        tl.store(y, tl.sum(values, dtype=tl.float32))
    else:
        tl.store(y + lanes, tl.cumsum(values, 0))


def additions(how, dtype, arch):
    result = "fp32" if "float32" in how else dtype
    signature = {"x": f"*{dtype}", "y": f"*{result}", "how": "constexpr"}
    source = ASTSource(reduce, signature=signature, constexprs={"how": how})
    ptx = triton.compile(source, target=GPUTarget("cuda", arch, 32)).asm["ptx"]
    # sm_80 has no bfloat16 addition: there it is a fused multiply-add by 1
    return sorted(set(re.findall(r"\s(?:add|fma\.rn)\.(f32|f16|bf16)\s", ptx)))


print("triton", triton.__version__)
for arch in 80, 90:
    widths = {}
    for how in "sum", "cumsum", "sum, dtype=float32":
        for dtype in "fp16", "bf16":
            widths[how, dtype] = additions(how, dtype, arch)
            print(f"sm_{arch} tl.{how} of {dtype} adds in", *widths[how, dtype])
    assert widths == {
        ("sum", "fp16"): ["f16"], ("sum", "bf16"): ["bf16"],
        ("cumsum", "fp16"): ["f16"], ("cumsum", "bf16"): ["f32"],
        ("sum, dtype=float32", "fp16"): ["f32"], ("sum, dtype=float32", "bf16"): ["f32"],
    }, "no longer as stated"
PYTHON
TRITON_CACHE_DIR="$work/cache" "$work/venv/bin/python" "$work/reduce.py"
