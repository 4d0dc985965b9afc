#!/usr/bin/env bash
# onnxruntime 1.32.0 on x86-64: float16 operations in a row are computed in float32 and not rounded between
#
# Expected: the CPU computes each node in float32 and rounds its output to float16, because the graph says that each
#   value between nodes is float16.
# Observed: 60000 + 60000 - 60000 is 60000, though no float16 holds the sum, and exp(12) / exp(12) is 1 (inf / inf in
#   float16 is nan). This is so with all graph optimizations disabled, too. With the middle value as an output of the
#   graph as well, that output is inf, while the last one is still computed from the value that was not rounded.
# Why it matters: as a reference for a float16 kernel this is another function: it hides overflow, and its last bits
#   differ from an implementation that rounds where the graph says so. Disabling the optimizer does not give the
#   "plain" reference. Run one node per session, or round in numpy.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6

cat > "$work/chain.py" <<'PYTHON'
import numpy
import onnxruntime
from onnx import TensorProto, helper

numpy.seterr(all="ignore")
onnxruntime.set_default_logger_severity(3)
LEVELS = onnxruntime.GraphOptimizationLevel


def run(nodes, x, outputs, level):
    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT16, [1])

    graph = helper.make_graph(nodes, "chain", [value("x")], [value(name) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [float(output[0]) for output in session.run(None, {"x": numpy.array([x], numpy.float16)})]


node = helper.make_node
add_subtract = [node("Add", ["x", "x"], ["middle"]), node("Sub", ["middle", "x"], ["y"])]
exp_divide = [node("Exp", ["x"], ["middle"]), node("Div", ["middle", "middle"], ["y"])]
big, twelve = numpy.float16(60000), numpy.float16(12)
print("onnxruntime", onnxruntime.__version__)
print("numpy in float16:", big + big - big, numpy.exp(twelve) / numpy.exp(twelve))
for level in LEVELS.ORT_DISABLE_ALL, LEVELS.ORT_ENABLE_ALL:
    for nodes, x, expected in (add_subtract, 60000, 60000.0), (exp_divide, 12, 1.0):
        (alone,) = run(nodes, x, ["y"], level)
        middle, last = run(nodes, x, ["middle", "y"], level)
        print(f"{level.name}: {alone}; middle value {middle}, then {last}")
        assert (alone, middle, last) == (expected, float("inf"), expected), "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/chain.py"
