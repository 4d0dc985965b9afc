#!/usr/bin/env bash
# torch 2.13.0, CPU: scatter_add of bfloat16 counts to 4096, index_add stops at 256
#
# Expected: functions of one library that add rows by index agree: either all keep a float32 accumulator, or none.
# Observed: 4096 ones at one index: scatter_add, embedding_bag and scatter_reduce give 4096. index_add, index_put with
#   accumulate, and segment_reduce give 256 in bfloat16 and 2048 in float16, where one more is rounded away.
# Why it matters: a reference for a gather, an embedding's gradient or a mixture of experts may be written with
#   either. The answer then differs by a factor of 16, and the choice looks like one of style.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6

cat > "$work/index.py" <<'PYTHON'
import torch

torch.set_num_threads(1)
count = 4096
print("torch", torch.__version__)
for dtype, stop in (torch.bfloat16, 256.0), (torch.float16, 2048.0):
    zero, ones, index = torch.zeros(1, dtype=dtype), torch.ones(count, dtype=dtype), torch.zeros(count, dtype=torch.long)
    bag = torch.nn.functional.embedding_bag
    wide = {
        "scatter_add": zero.scatter_add(0, index, ones).item(),
        "scatter_reduce": zero.scatter_reduce(0, index, ones, "sum").item(),
        "embedding_bag": bag(index.view(1, -1), torch.ones(1, 1, dtype=dtype), mode="sum").item(),
    }
    narrow = {
        "index_add": zero.index_add(0, index, ones).item(),
        "index_put": zero.index_put((index,), ones, accumulate=True).item(),
        "segment_reduce": torch.segment_reduce(ones, "sum", lengths=torch.tensor([count])).item(),
    }
    print(dtype, wide, narrow)
    assert set(wide.values()) == {float(count)} and set(narrow.values()) == {stop}, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/index.py"
