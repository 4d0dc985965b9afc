#!/usr/bin/env bash
# jax 0.10.2 on CPU: segment_sum of 10,000 bfloat16 ones is 256, jnp.sum of them is 9984
#
# Expected: sums, products and scatter-adds of one library accumulate 16-bit floats alike, in float32.
# Observed: jnp.sum, jnp.cumsum and jnp.dot do. jax.ops.segment_sum and x.at[i].add round after each addition, and stay
#   at 256 in bfloat16 and at 2048 in float16, where adding 1 no longer changes anything. The inputs are ones, so that
#   nothing but the accumulation can be at fault.
# Why it matters: segment_sum is the natural reference for the combine step of a mixture of experts, for gradients of
#   embeddings and for histograms. A kernel that accumulates in float32 is right and fails the check by a factor of
#   39. Convert the inputs of the reference first, and round once at the end.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6

cat > "$work/sums.py" <<'PYTHON'
import jax
import jax.numpy as jnp

COUNT = 10_000
print("jax", jax.__version__)
for dtype, stuck, rounded in (jnp.bfloat16, 256, 9984), (jnp.float16, 2048, 10000):
    ones, target = jnp.ones(COUNT, dtype), jnp.zeros(COUNT, int)
    in_float32 = {"sum": jnp.sum(ones), "cumsum": jnp.cumsum(ones)[-1], "dot": jnp.dot(ones, ones)}
    in_16_bits = {
        "segment_sum": jax.ops.segment_sum(ones, target, 1)[0],
        "at[].add": jnp.zeros(1, dtype).at[target].add(ones)[0],
    }
    for name, value in (in_float32 | in_16_bits).items():
        print(f"{jnp.dtype(dtype).name} {name}: {float(value):g}")
    assert {float(value) for value in in_float32.values()} == {rounded}, "no longer as stated"
    assert {float(value) for value in in_16_bits.values()} == {stuck}, "no longer as stated"
PYTHON
JAX_PLATFORMS=cpu "$work/venv/bin/python" "$work/sums.py"
