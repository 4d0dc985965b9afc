"""What a kernel replaces of the harness, of the problem or of PyTorch is put back, and named."""

import sys
from pathlib import Path

import pytest

from kernel_velocity.engine import reported
from kernel_velocity.machine import limits
from kernel_velocity.problem import problem_formats
from kernel_velocity.suite import audit
from kernel_velocity.suite.originals import Originals

torch = pytest.importorskip("torch", reason="layers of PyTorch are replaced")


def nothing(*_, **__):
    return None


def replace_defaults():
    audit.audit.__kwdefaults__ = {"device": "cpu"}


@pytest.mark.parametrize(
    ("replace", "name"),
    [
        (lambda: setattr(audit, "SUSPECT", 1e9), "kernel_velocity.suite.audit.SUSPECT"),
        (lambda: setattr(limits, "_PROGRAM", "pass"), "kernel_velocity.machine.limits._PROGRAM"),
        (lambda: setattr(reported, "_CPU_FOLDERS", Path()), "kernel_velocity.engine.reported._CPU_FOLDERS"),
        (lambda: audit.ALONE_SLACK.update(cpu=1.0), "kernel_velocity.suite.audit.ALONE_SLACK"),
        (lambda: setattr(audit, "AuditError", KeyError), "kernel_velocity.suite.audit.AuditError"),
        (replace_defaults, "kernel_velocity.suite.audit.audit"),
        (lambda: delattr(audit, "check_finished"), "kernel_velocity.suite.audit.check_finished"),
        (lambda: setattr(torch.Tensor, "add", nothing), "torch.Tensor.add"),  # a base has it
        (lambda: audit.audit.__kwdefaults__.update(threads=9), "kernel_velocity.suite.audit.audit"),
        (lambda: limits.MARGINS.pop(next(iter(limits.MARGINS))), "kernel_velocity.machine.limits.MARGINS"),
        (lambda: sys.modules.update({audit.__name__: reported}), "kernel_velocity.suite.audit"),
        (lambda: setattr(torch.nn.Linear, "forward", nothing), "torch.nn.modules.linear.Linear.forward"),
        (
            lambda: torch.nn.modules.module.register_module_forward_hook(nothing),
            "torch.nn.modules.module._global_forward_hooks",
        ),
    ],
)
def test_what_was_replaced_is_put_back_and_named(replace, name):
    originals = Originals()
    originals.note()
    assert originals._fast.is_same()
    slack, margins = dict(audit.ALONE_SLACK), dict(limits.MARGINS)

    def values():
        functions = torch.nn.Linear.forward, torch.Tensor.add, audit.check_finished
        return audit.SUSPECT, audit.AuditError, dict(audit.audit.__kwdefaults__), *functions

    before = values()
    replace()
    assert name in originals.put_back()
    assert originals.put_back() == []
    assert values() == before and "add" not in vars(torch.Tensor)
    assert (
        slack == audit.ALONE_SLACK and margins == limits.MARGINS and not torch.nn.modules.module._global_forward_hooks
    )


def test_server_that_forks_rounds_has_noted_those_of_pytorch(monkeypatch):
    asv_type = pytest.importorskip("kernel_velocity.suite.asv_type", reason="the server is asv's")
    of_server = Originals()
    monkeypatch.setattr(asv_type, "ORIGINALS", of_server)
    monkeypatch.setattr(sys, "argv", ["asv", "run_server"])
    asv_type.register()
    assert {"torch.nn.functional.relu", "torch.Tensor.add"} <= of_server._functions.keys()


def test_what_the_compiler_adds_and_removes_is_nobodys(monkeypatch):
    monkeypatch.setattr(audit, "__compiled_fn_1_7b6d", nothing, raising=False)
    originals = Originals()
    originals.note()
    monkeypatch.delattr(audit, "__compiled_fn_1_7b6d")  # as PyTorch does where compiled code is collected
    assert originals.put_back() == []


PROBLEM = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
    def forward(self, x): return self.layer(x)
def get_inputs(): return [torch.ones(2, 3)]
"""


@pytest.mark.parametrize(
    ("replace", "name"),
    [
        (lambda problem: setattr(problem.module.Model, "forward", nothing), "mine.Model.forward"),
        (lambda problem: setattr(problem.module, "get_inputs", nothing), "mine.get_inputs"),
        (lambda problem: setattr(problem.model, "forward", nothing), "attributes of Model"),
        (lambda problem: problem.model.register_forward_hook(nothing), "Model._forward_hooks"),
        (lambda problem: problem.model.layer.register_forward_pre_hook(nothing), "Model.layer._forward_pre_hooks"),
        (lambda problem: problem.model.add_module("layer", torch.nn.Identity()), "Model._modules"),
    ],
)
def test_own_classes_of_a_problem_are_put_back_and_named(tmp_path, replace, name):
    (tmp_path / "mine.py").write_text(PROBLEM)
    problem = problem_formats.problem_class(tmp_path / "mine.py")()
    (inputs,) = (problem.generate_test_cases()[0]["create_inputs"](),)
    expected, originals = problem.expected(*inputs), Originals()
    originals.note(problem)
    replace(problem)
    assert name in originals.put_back()
    assert originals.put_back() == []
    assert torch.equal(problem.expected(*problem.generate_test_cases()[0]["create_inputs"]()), expected)
