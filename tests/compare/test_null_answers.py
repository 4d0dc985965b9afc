"""What computes nothing, or not all, is found or unproven, whatever the size of the right output. What is right is."""

import sys
import types
from functools import partial

import pytest

import kernel_velocity as kv
from kernel_velocity.compare.api import compare
from kernel_velocity.compare.implementations import load
from kernel_velocity.compare.result import RIGHT, UNPROVEN
from kernel_velocity.problem.implementations import fresh
from kernel_velocity.problem.problem import outputs_of
from kernel_velocity.problem.problem_formats import copies
from tests.compare.doubling import QUICK

torch = pytest.importorskip("torch", reason="problems make torch tensors")

# A definition of ours: inputs, reference, whether it is row-wise.
OURS = {
    "softmax": (lambda: torch.randn(16, 4096), lambda x: x.softmax(1), True),
    "layer norm": (lambda: torch.randn(32, 64), lambda x: torch.nn.functional.layer_norm(x, (64,)), True),
    "squared error": (lambda: torch.rand(64, 64), lambda x: (x - 0.5).square().mean(), False),
    "tiny": (lambda: torch.randn(64, 64), lambda x: x * 1e-9, True),
    "tiny row": (lambda: torch.randn(4, 64).mul(torch.tensor([1.0, 1, 1, 1e-6])[:, None]), lambda x: x * 2, True),
    "one value in all": (lambda: torch.rand(128), lambda x: x.sum().repeat(128), False),
    "one value a row": (lambda: torch.rand(16, 32), lambda x: x.mean(1, keepdim=True).repeat(1, 32), True),
    "quantised": (lambda: torch.randn(256), lambda x: (x * 20).round().clamp(-128, 127).to(torch.int8), False),
    "counts": (lambda: torch.randint(0, 16, (256,)), lambda x: torch.bincount(x, minlength=16), False),
    "mask": (lambda: torch.randn(256), lambda x: x > 0, False),
    "scales beside": (lambda: torch.randn(16, 64), lambda x: (x.sign().to(torch.int8), x.abs().amax(1) * 1e-6), True),
}
# A file of KernelBench's form, which allows 1e-4: body of `forward`, inputs.
THEIRS = {
    "their_softmax_of_200": ("return torch.softmax(x, 1)", "torch.rand(64, 200)"),
    "in_place": ("return x.mul_(3)", "torch.rand(64, 64)"),
    "two_outputs": ("return x.argmax(1), x.sum(1) * 1e-5", "torch.rand(64, 64)"),
}
MODEL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        {}


def get_inputs():
    return [{}]
"""


def ours(monkeypatch, inputs, reference, is_row_wise):
    module = types.ModuleType("benchmarks.nulls")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    members = {"inputs": inputs, "reference": reference, "mine": lambda x: x, "__module__": module.__name__}
    rows = ("x",) if is_row_wise else ()
    return kv.benchmark(cases={"float32-case": ()}, rows=rows, bytes=lambda: 1)(type("Nulls", (), members))()


def theirs(tmp_path, name, body, inputs):
    path = tmp_path / f"{name}.py"
    path.write_text(MODEL.format(body, inputs))
    problem, _ = load(str(path), "cpu")
    problem.expected(*problem.generate_test_cases()[0]["create_inputs"]())  # says whether it works in place
    return problem


def by_one_percent(values):
    if values.dtype == torch.bool:
        values[: 1 + len(values) // 100] ^= True
        return values
    more = values / 100 if values.is_floating_point() else (values.abs() // 100).clamp_min(1).to(values.dtype)
    return values + more


def by_one_unit(values):
    if values.dtype == torch.bool:
        return values.logical_xor(torch.arange(len(values)) == 0)
    values[0] += values.double().square().mean().sqrt() if values.is_floating_point() else 1
    return values


def without(values, share):
    if len(values) == 1:
        return values * (1 - share)
    values[round(len(values) * (1 - share)) :] = 0
    return values


def copied(values, inputs):
    return inputs[0].flatten().repeat(-(-len(values) // inputs[0].numel()))[: len(values)].to(values.dtype)


WRONG = {  # of the last output, flat: its right values, the inputs, the right values of the inputs that it was bound to
    "zeros": lambda values, inputs, first: torch.zeros_like(values),
    "constant": lambda values, inputs, first: torch.full_like(values, first.double().mean().item()),
    "copy": lambda values, inputs, first: copied(values, inputs),
    "half computed": lambda values, inputs, first: without(values, 0.5),
    "a tile missing": lambda values, inputs, first: without(values, 0.125),
    "off by 1%": lambda values, inputs, first: by_one_percent(values),
    "off by a unit": lambda values, inputs, first: by_one_unit(values),
    "stale": lambda values, inputs, first: first.clone(),
}


def bound_to(spoil, problem, case, inputs):
    """Bind a solution whose last output is spoiled. `spoil` is None for the honest one, which computes in float64."""

    def right():
        return outputs_of(problem.reference_solution(*copies(inputs)))

    *_, first = right()
    first = first.flatten().clone()

    def honest():
        wide = tuple(value.double() if value.is_floating_point() else value.clone() for value in inputs)
        outputs = outputs_of(problem.reference_solution(*wide))
        return tuple(wide.to(output.dtype) for wide, output in zip(outputs, right(), strict=True))

    def spoiled():
        *others, output = right()
        return (*others, spoil(output.flatten().clone(), inputs, first).to(output.dtype).reshape(output.shape))

    def solve():
        outputs = honest() if spoil is None else spoiled()
        return outputs[0] if len(outputs) == 1 else outputs

    return fresh(solve)


@pytest.mark.parametrize("name", [*OURS, *THEIRS])
def test_wrong_answers_are_found_or_unproven(name, monkeypatch, tmp_path):
    problem = ours(monkeypatch, *OURS[name]) if name in OURS else theirs(tmp_path, name, *THEIRS[name])
    solutions = {"honest": partial(bound_to, None), **{what: partial(bound_to, spoil) for what, spoil in WRONG.items()}}
    (compared,) = compare(problem, solutions, settings=QUICK).compared
    statuses = {timed.implementation: timed.status for timed in compared.timed}
    reasons = {timed.implementation: timed.reason or timed.unproven for timed in compared.timed}
    assert statuses.pop("honest") == RIGHT, reasons["honest"]
    assert [what for what, status in statuses.items() if status == RIGHT] == [], reasons


def test_output_that_depends_on_nothing_is_named(tmp_path):
    problem = theirs(tmp_path, "constant", "return torch.softmax(x, 1)", "torch.rand(8, 1)")
    comparison = compare(problem, {"honest": partial(bound_to, None)}, settings=QUICK)
    (timed,) = comparison.compared[0].timed
    assert timed.status == UNPROVEN
    assert timed.unproven == "a constant would pass; the right output does not depend on the inputs"


COPYING = {
    "copy": ("return x.clone()", "torch.rand(8, 64)", RIGHT),
    "copy of integers": ("return x.clone()", "torch.randint(0, 9, (8, 64))", RIGHT),
    "conversion": ("return x.half()", "torch.rand(8, 64)", RIGHT),
    "relu of positive numbers": ("return x.relu()", "torch.rand(8, 64)", UNPROVEN),
    "bounds that none exceeds": ("return x.clamp(-1, 1)", "torch.rand(8, 64)", UNPROVEN),
    "a sum with zeros": ("return x + b", "torch.rand(8, 64), torch.zeros(64)", UNPROVEN),
}


@pytest.mark.parametrize("name", COPYING)
def test_copy_is_right_where_the_kernel_copies_any_inputs(name, tmp_path):
    body, inputs, status = COPYING[name]
    path = tmp_path / "copying.py"
    path.write_text(MODEL.replace("self, x", "self, x, b=None").format(body, inputs))
    problem, _ = load(str(path), "cpu")
    (compared,) = compare(problem, {"honest": partial(bound_to, None)}, settings=QUICK).compared
    (timed,) = compared.timed
    assert (timed.status, timed.unproven) == (status, "" if status == RIGHT else "a copy of an input would pass")
