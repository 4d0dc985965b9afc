"""What --fleet names: understood, or refused in one line with the cure."""

import io
import sys

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.errors import UsageError
from kernel_velocity.fleet import scheduler


@pytest.mark.parametrize(
    ("text", "kind", "count", "options"),
    [
        ("tcp://10.0.0.1:8786", "tcp", 0, {}),
        ("local:3", "local", 3, {}),
        ("slurm:partition=gpu,nodes=4,gpus=1", "slurm", 4, {"partition": "gpu", "gpus": "1"}),
    ],
)
def test_forms(text, kind, count, options):
    result = scheduler.parse(text)
    assert (result.kind, result.count, result.options) == (kind, count, options)


@pytest.mark.parametrize(
    "text", ["", "local", "local:0", "tcp://host", "slurm:partition=gpu", "slurm:nodes=2,color=red"]
)
def test_other_forms_are_refused_with_what_is_wanted(text):
    with pytest.raises(UsageError, match=r"--fleet '.*': .*wanted"):
        scheduler.parse(text)


def test_missing_package_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(UsageError, match=r"distributed, which is not installed: pip install 'kernel-velocity\[fleet\]'"),
        scheduler.connected(scheduler.parse("local:1")),
    ):
        pass


@pytest.mark.parametrize("option", ["--anchors=2", "--budget=5"])
def test_options_of_a_fleet_need_one(option):
    err = io.StringIO()
    assert main(["track", option], io.StringIO(), err) == 2
    assert "is for --fleet" in err.getvalue()
