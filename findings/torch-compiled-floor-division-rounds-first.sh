#!/usr/bin/env bash
# torch 2.13.0, CPU: a compiled floor division is the floor of a rounded quotient
#
# Expected: x // y of float32 is the floor of the exact quotient, as Python, numpy and torch's eager mode compute it.
# Observed: 0.3 in float32 is a little more than 0.3, so 1.5 // 0.3 is 4. numpy and eager say 4, torch.compile says 5:
#   it divides, rounds to 5 and takes the floor. Of 100,000 multiples of 0.3 half differ by one.
# Why it matters: an index of a bucket or of a quantisation step is computed this way. A compiled baseline is off by
#   one bucket where the quotient is near an integer, which is where test data with round numbers lie.
# Needs: a C++ compiler, for torch.compile.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6

cat > "$work/floor.py" <<'PYTHON'
import numpy as np
import torch

torch.set_num_threads(1)
values = (torch.arange(1, 100_001, dtype=torch.float64) * 0.3).to(torch.float32)
step = torch.tensor(0.3)


def bucket(values, step):
    return values // step


eager, compiled = bucket(values, step), torch.compile(bucket)(values, step)
by_numpy = torch.from_numpy(values.numpy() // np.float32(0.3))
share = (eager != compiled).double().mean().item()
print("torch", torch.__version__, "1.5 // 0.3: eager", eager[4].item(), "compiled", compiled[4].item())
print(f"differ: {share:.1%}, by at most", (eager - compiled).abs().max().item())
assert torch.equal(eager, by_numpy) and (eager[4], compiled[4]) == (4, 5), "no longer as stated"
assert share > 0.1 and torch.equal(compiled, torch.floor(values / step)), "no longer as stated"
PYTHON
TORCHINDUCTOR_CACHE_DIR="$work/inductor" "$work/venv/bin/python" "$work/floor.py"
