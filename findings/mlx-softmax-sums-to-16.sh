#!/usr/bin/env bash
# MLX 0.32.4, CPU: a softmax of 4096 equal bfloat16 values sums to 16
#
# Expected: a softmax sums to 1, up to the rounding of its outputs. mean and sum of float16 keep a float32
#   accumulator.
# Observed: the denominator is added up in 16 bits and stops at 256, so each of 4096 equal values gets 1/256: the sum
#   is 16 in bfloat16 and 2 in float16. precise=True gives 1. mean of 70,000 ones in float16 is inf, and a float32 sum
#   of ones stops at 16,777,216.
# Why it matters: rows of 4096 are usual in attention. A softmax of a 16-bit row is the reference of many kernels, and
#   a check of one row of 128 sees nothing.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "mlx[cpu]==0.32.4"

cat > "$work/softmax.py" <<'PYTHON'
import mlx.core as mx

mx.set_default_device(mx.cpu)


def total(dtype, **how):
    return mx.softmax(mx.ones((4096,), dtype=dtype), **how).astype(mx.float32).sum().item()


found = {name: (total(dtype), total(dtype, precise=True)) for name, dtype in (("bf16", mx.bfloat16), ("f16", mx.float16))}
mean = mx.mean(mx.ones((70_000,), dtype=mx.float16)).item()
ones = mx.sum(mx.ones((2**24 + 2**22,))).item()
print("mlx", mx.__version__, "sums of a softmax, usual and precise:", found)
print("mean of 70,000 ones in float16:", mean, "sum of 20,971,520 ones in float32:", ones)
assert found == {"bf16": (16.0, 1.0), "f16": (2.0, 1.0)}, "no longer as stated"
assert mean == float("inf") and ones == 2.0**24, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/softmax.py"
