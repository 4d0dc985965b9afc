"""The functions for scripts of one's own: each has an example, and the example is what happens."""

import doctest
import json
import tempfile
from pathlib import Path

import pytest

from kernel_velocity.compare import api, profile
from kernel_velocity.documents import with_checksum
from kernel_velocity.problem import accuracy
from kernel_velocity.roofline import model
from kernel_velocity.runner import asv, peaks
from tests.machine.test_device_figures import a_machine, document


@pytest.mark.parametrize(
    ("module", "calls"),
    [
        (api, ("compare(", "time_function(")),
        (model, ("roofline(",)),
        (accuracy, ("accuracy(",)),
        (profile, ("profile_call(",)),
        (peaks, ("measure_roofs(",)),
    ],
    ids=lambda module: getattr(module, "__name__", None),
)
def test_examples_do_what_they_say(module, calls, tmp_path, monkeypatch):
    """Of `peaks`, which takes half a minute, what a measuring process writes is put into place."""

    def run(module, argv, on_line):
        Path(argv[0]).write_text(with_checksum(json.dumps(document(a_machine()))))
        return 0

    monkeypatch.setattr(asv, "run_measuring", run)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pytest.importorskip("torch.profiler", reason="the examples compute with a whole PyTorch")
    pytest.importorskip("kernels", reason="an example compares a native kernel")
    sources = [example.source for test in doctest.DocTestFinder().find(module) for example in test.examples]
    assert all(any(call in source and "import" not in source for source in sources) for call in calls)
    results = doctest.testmod(module)
    assert (results.failed, results.attempted) == (0, len(sources))
