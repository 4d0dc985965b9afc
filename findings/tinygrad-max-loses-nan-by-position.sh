#!/usr/bin/env bash
# tinygrad 0.14.0, CPU: max of NaN and numbers depends on their order
#
# Expected: one rule for NaN in a reduction: it is kept wherever it stands (torch, numpy, jax), or dropped wherever it
#   stands.
# Observed: max of [NaN, 1, 2] is NaN and max of [1, NaN, 2] is 2, and relu(NaN) is 0: all are written as a comparison
#   and a choice.
# Why it matters: a NaN that a faulty kernel writes is hidden by the step after it in some runs and not in others. A
#   check of a maximum, or of a result behind relu, is no check for NaN.
# Needs: clang, which tinygrad compiles with.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q tinygrad==0.14.0 numpy==2.4.6

cat > "$work/maximum.py" <<'PYTHON'
import os

os.environ["DEV"] = "CPU"
from tinygrad import Tensor  # noqa: E402

nan = float("nan")
first, middle = Tensor([nan, 1.0, 2.0]).max().item(), Tensor([1.0, nan, 2.0]).max().item()
rectified = Tensor([nan, -1.0]).relu().tolist()
print("max with NaN first", first, "in the middle", middle, "relu of NaN", rectified[0])
assert first != first and middle == 2.0 and rectified == [0.0, 0.0], "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/maximum.py"
