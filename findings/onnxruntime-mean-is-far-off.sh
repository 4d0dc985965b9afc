#!/usr/bin/env bash
# onnxruntime 1.32.0 on x86-64: ReduceMean of a million float32 values between 1000 and 1001 is 1000.06, not 1000.50
#
# Expected: an error near one unit in the last place, as numpy has, whose sums are pairwise.
# Observed: a few running sums in float32: the relative error grows with the length: 0.1% for 2^20 values of 0.1, 1.7%
#   for 2^24. Neither the number of threads nor the reduced axis mends it.
# Why it matters: this is a likely CPU reference for reductions and norms. A GPU kernel sums in a tree and is more exact
#   than it: the kernel fails the check against the reference from some size on, and a widened tolerance for that size
#   accepts wrong kernels. A mean over a large input needs a float64 reference.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6

cat > "$work/mean.py" <<'PYTHON'
import numpy
import onnxruntime
from onnx import TensorProto, helper


def mean(values, threads):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    graph = helper.make_graph([helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0)], "mean", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return float(session.run(None, {"x": values})[0])


print("onnxruntime", onnxruntime.__version__)
thousands = (1000 + numpy.random.default_rng(0).random(1 << 20)).astype(numpy.float32)
for name, values, least_error in (
    ("2^20 values from 1000 to 1001", thousands, 1e-4),
    ("2^24 values of 0.1", numpy.full(1 << 24, 0.1, numpy.float32), 1e-3),
):
    exact = values.mean(dtype=numpy.float64)
    errors = [abs(mean(values, threads) / exact - 1) for threads in (1, 2)]
    by_numpy = abs(float(values.mean()) / exact - 1)
    print(f"{name}: mean {exact:.6f}, onnxruntime {mean(values, 1):.6f}, numpy {float(values.mean()):.6f}")
    print(f"  relative error {errors[0]:.1e} (1 thread), {errors[1]:.1e} (2 threads), numpy {by_numpy:.1e}")
    assert min(errors) > least_error > 100 * by_numpy, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/mean.py"
