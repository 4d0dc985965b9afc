#!/usr/bin/env bash
# ml_dtypes 0.6.0 and torch 2.13.0: float64 becomes bfloat16 by way of float32
#
# Expected: a conversion rounds once, to the nearest of the target, as numpy's from float64 to float16 does.
# Observed: 1 + 2^-8 + 2^-30 lies above the middle of two neighbours of bfloat16, so the nearest is 1.0078125. Both
#   give 1: float32 cuts the last term, and the tie goes to even. torch does the same for float16, where numpy is
#   right.
# Why it matters: a float64 reference is cast to the kernel's type before it is compared. A kernel that rounds once is
#   then off by a unit of the last place, and a check that asks for equal bits refuses it.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q ml_dtypes==0.6.0 torch==2.13.0 numpy==2.4.6

cat > "$work/twice.py" <<'PYTHON'
import ml_dtypes
import numpy as np
import torch

to_bfloat16, to_float16 = 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-11 + 2.0**-30
found = {
    "ml_dtypes, bfloat16": float(np.array([to_bfloat16]).astype(ml_dtypes.bfloat16)[0]),
    "torch, bfloat16": torch.tensor([to_bfloat16], dtype=torch.float64).to(torch.bfloat16).item(),
    "torch, float16": torch.tensor([to_float16], dtype=torch.float64).to(torch.float16).item(),
    "numpy, float16": float(np.array([to_float16]).astype(np.float16)[0]),
}
print("ml_dtypes", ml_dtypes.__version__, "torch", torch.__version__, "numpy", np.__version__, found)
assert list(found.values()) == [1.0, 1.0, 1.0, 1 + 2.0**-10], "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/twice.py"
