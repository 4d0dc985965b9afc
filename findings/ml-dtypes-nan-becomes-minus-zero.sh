#!/usr/bin/env bash
# ml_dtypes 0.6.0: NaN becomes -0 in the formats of 4 and 6 bits
#
# Expected: a format without NaN refuses it, or takes its largest number, as it does for infinity.
# Observed: in float4_e2m1fn, float6_e2m3fn and float6_e3m2fn infinity becomes the largest number and NaN becomes -0,
#   without a warning.
# Why it matters: a tensor quantised for an MXFP4 or NVFP4 product loses every NaN that came before: the product of a
#   broken layer is finite and small. The check for NaN has to stand before the conversion.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q ml_dtypes==0.6.0 numpy==2.4.6

cat > "$work/small.py" <<'PYTHON'
import ml_dtypes
import numpy as np

print("ml_dtypes", ml_dtypes.__version__, "numpy", np.__version__)
for name in "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn":
    kind = getattr(ml_dtypes, name)
    largest = float(ml_dtypes.finfo(kind).max)
    got = np.array([np.nan, np.inf, -np.inf], np.float32).astype(kind).astype(np.float32)
    print(name, got.tolist(), "largest", largest)
    assert got.tolist() == [0.0, largest, -largest] and np.signbit(got[0]), "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/small.py"
