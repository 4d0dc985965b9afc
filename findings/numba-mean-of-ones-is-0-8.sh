#!/usr/bin/env bash
# numba 0.68.1 and numexpr 2.14.2: a float32 sum stops at 16,777,216, a mean of ones is 0.8
#
# Expected: np.sum and np.mean inside numba are numpy's: pairwise, right to a few units of the last place. numexpr
#   adds in float64.
# Observed: of 20,971,520 ones numpy's sum is exact. numba's and numexpr's stop at 16,777,216, where one more is
#   rounded away, and numba's mean is 0.8.
# Why it matters: compiled reductions are taken for the exact reference of a kernel, since they look like numpy's. An
#   error of 20% then belongs to the reference. It appears above 16 million elements alone, which small tests never
#   have.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q numba==0.68.1 numexpr==2.14.2 numpy==2.4.6

cat > "$work/total.py" <<'PYTHON'
import numba
import numexpr
import numpy as np

ones = np.ones(2**24 + 2**22, np.float32)


@numba.njit
def total(values):
    return np.sum(values)


@numba.njit
def mean(values):
    return np.mean(values)


print("numba", numba.__version__, "numexpr", numexpr.__version__, "numpy", np.__version__)
found = {
    "numpy's sum": float(ones.sum()),
    "numba's sum": float(total(ones)),
    "numexpr's sum": float(numexpr.evaluate("sum(ones)")),
    "numba's mean": round(float(mean(ones)), 6),
}
print(found)
assert list(found.values()) == [20971520.0, 16777216.0, 16777216.0, 0.8], "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/total.py"
