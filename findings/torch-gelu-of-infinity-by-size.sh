#!/usr/bin/env bash
# torch 2.13.0, CPU: gelu of infinity is infinity alone and NaN among others
#
# Expected: gelu(inf) is inf: x times a probability that is 1. The tanh form says so.
# Observed: a float32 tensor of one infinity gives inf, a tensor of eight gives NaN in each place; float64 gives inf
#   for both. A compiled gelu gives inf. (gelu(-inf) is NaN everywhere, as -inf times 0.)
# Why it matters: a test of special values with one element passes, and the same values in a tensor of usual size
#   fail. A correct kernel is called wrong by its eager reference, or the judge ignores NaN and sees nothing else
#   either.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6

cat > "$work/gelu.py" <<'PYTHON'
import torch
from torch.nn.functional import gelu

torch.set_num_threads(1)
print("torch", torch.__version__)
found = {}
for dtype in torch.float32, torch.float64:
    for count in 1, 8:
        values = torch.full((count,), float("inf"), dtype=dtype)
        exact, by_tanh = gelu(values), gelu(values, approximate="tanh")
        print(dtype, count, "gelu", exact.tolist()[:1], "tanh form", by_tanh.tolist()[:1])
        assert by_tanh.isinf().all(), "no longer as stated"
        found[dtype, count] = "nan" if exact.isnan().all() else "inf" if exact.isinf().all() else "mixed"
assert found == {
    (torch.float32, 1): "inf", (torch.float32, 8): "nan", (torch.float64, 1): "inf", (torch.float64, 8): "inf",
}, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/gelu.py"
