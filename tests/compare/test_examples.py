"""The functions for scripts of one's own: each has an example, and the example is what happens."""

import doctest
import json
import tempfile
from pathlib import Path

import pytest

from kernel_velocity.compare import api, profile
from kernel_velocity.harness import accuracy
from kernel_velocity.roofline import model
from kernel_velocity.runner import live, peaks
from tests.harness.test_device_figures import a_machine, document

# What is wanted -> the function that does it, and the module with its example.
FUNCTIONS = {
    "time one function": ("time_function(", api),
    "compare three or more": ("compare(", api),
    "measure the machine": ("measure_roofs(", peaks),
    "roofline": ("roofline(", model),
    "memory traffic": ("memory_traffic(", model),
    "accuracy": ("accuracy(", accuracy),
    "profile": ("profile_call(", profile),
}


def examples(module):
    """Return the examples of a module, in its first lines and below."""
    found = doctest.DocTestFinder().find(module)
    return [example for test in found for example in test.examples]


@pytest.mark.parametrize("what", FUNCTIONS)
def test_there_is_an_example(what):
    call, module = FUNCTIONS[what]
    assert any(call in each.source and "import" not in each.source for each in examples(module))


@pytest.mark.parametrize("module", [accuracy, api, profile, model], ids=lambda module: module.__name__)
def test_the_examples_do_what_they_say(module, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pytest.importorskip("torch.profiler", reason="the examples compute with a whole PyTorch")
    if module is api:
        pytest.importorskip("kernels", reason="the example compares a native kernel")
    found = doctest.testmod(module)
    assert (found.failed, found.attempted) == (0, len(examples(module)))
    assert found.attempted >= 5


def test_the_example_of_the_machine_does_what_it_says(monkeypatch):
    """Its half a minute is another test's: what a measuring process writes is put into place."""

    def run(stage, argv, out, err):
        Path(argv[0]).write_text(json.dumps(document(a_machine())))
        return 0

    monkeypatch.setattr(live, "run", run)
    found = doctest.testmod(peaks)
    assert (found.failed, found.attempted) == (0, 4)


@pytest.mark.slow
def test_the_example_of_the_machine_does_what_it_says_on_this_one():
    pytest.importorskip("torch", reason="ceilings are measured through torch")
    assert doctest.testmod(peaks).failed == 0
