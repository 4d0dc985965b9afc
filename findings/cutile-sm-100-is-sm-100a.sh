#!/usr/bin/env bash
# cuda-tile 1.7.0, tileiras 13.5.37: export_kernel(gpu_code="sm_100") makes code for sm_100a, and refuses that name
#
# Expected: a cubin for the architecture that is named. Code for sm_100 also runs on sm_103, and a name with a letter
#   asks for code that runs on one chip alone, as with nvcc, ptxas and CuTe DSL.
# Observed: sm_90, sm_100 and sm_120 give cubins that ptxas made for sm_90a, sm_100a and sm_120a, also of a kernel that
#   only doubles numbers. sm_80 stays sm_80. "sm_100a" ends with ValueError: invalid literal for int().
# Why it matters: files named by what was asked for hold other code. A cubin that was exported ahead of time "for
#   sm_100" is not for every chip of that generation, and figures of it belong beside those of sm_100a of other
#   compilers. Read the architecture from the cubin.
# Needs python3 of a version that cuda-tile has wheels for (3.10 to 3.14). No GPU and no driver.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --no-deps cuda-tile==1.7.0 typing-extensions==4.15.0 nvidia-cuda-tileiras==13.5.37 \
    nvidia-cuda-nvcc==13.5.37 nvidia-nvvm==13.5.37

cat >"$work/double.py" <<'PYTHON'
import io
import re

import cuda.tile as ct
from cuda.tile import compilation


@ct.kernel
def double(x, out, block: ct.Constant[int]):
    at = ct.bid(0)
    ct.store(out, index=(at,), tile=2.0 * ct.load(x, index=(at,), shape=(block,)))


vector = compilation.ArrayConstraint(
    ct.float32, 1, index_dtype=ct.int32, stride_lower_bound_incl=None, stride_constant=[1], alias_groups=(),
    may_alias_internally=False,
)
signature = compilation.KernelSignature(
    [vector, vector, compilation.ConstantConstraint(1024)], compilation.CallingConvention.cutile_python_v1(), "double"
)
print("cuda-tile", ct.__version__)
made = {}
for name in "sm_80", "sm_90", "sm_100", "sm_120":
    code = io.BytesIO()
    compilation.export_kernel(double, [signature], code, gpu_code=name, output_format="cubin")
    made[name] = re.search(rb"-arch (sm_\w+)", code.getvalue())[1].decode()  # of the options that ptxas notes
    print(f"gpu_code={name!r}: ptxas made code for {made[name]}")
try:
    compilation.export_kernel(double, [signature], io.BytesIO(), gpu_code="sm_100a", output_format="cubin")
    refused = "compiled"
except ValueError as error:
    refused = str(error)
print("gpu_code='sm_100a':", refused)
wanted = {"sm_80": "sm_80", "sm_90": "sm_90a", "sm_100": "sm_100a", "sm_120": "sm_120a"}
assert made == wanted and refused.startswith("invalid literal for int()"), "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/double.py"
