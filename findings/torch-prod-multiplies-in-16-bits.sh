#!/usr/bin/env bash
# torch 2.13.0, CPU: prod multiplies in 16 bits, sum adds in 32
#
# Expected: both reductions of float16 and bfloat16 keep a float32 accumulator, and a reduction does not depend on the
#   axis by more than a unit of the last place.
# Observed: the product of 4096 times 1 + 2^-10 in float16 is 54.5. torch says 48.5 along the contiguous axis and 40
#   along the other. The sum of the same numbers is right in both.
# Why it matters: the same reduction of a transposed tensor differs by 18%, and both are wrong by more than any usual
#   tolerance. A kernel with a float32 accumulator is called wrong by this reference.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6

cat > "$work/prod.py" <<'PYTHON'
import torch

torch.set_num_threads(1)
factor, count = 1 + 2.0**-10, 4096
row = torch.full((3, count), factor, dtype=torch.float16)
column = row.t().contiguous()
print("torch", torch.__version__, "true product", factor**count)
along_row, along_column = row.prod(1)[0].item(), column.prod(0)[0].item()
sums = row.sum(1)[0].item(), column.sum(0)[0].item()
print("along the contiguous axis", along_row, "along the other", along_column, "sums", sums)
assert 54 < factor**count < 55 and sums == (4100.0, 4100.0), "no longer as stated"
assert 45 < along_row < 52 and 36 < along_column < 44, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/prod.py"
