"""What a worker hands to the process that measures."""

import sys

from kernel_velocity.fleet import worker
from kernel_velocity.fleet.plan import FleetJob
from kernel_velocity.fleet.worker import Order


def test_builds_of_other_commits_are_left_out(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nls "$4/builds"\nexit 3\n')  # python -P -m MODULE FOLDER
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv(worker.FOLDER_VARIABLE, str(tmp_path))
    job = FleetJob(machine="m", lanes=("k c",), commits=("a", "b"), anchors=(), rounds=8)
    order = Order(
        job=job,
        root="r",
        head="a",
        bench="k",
        tier="core",
        ceilings=False,
        kind="CPU",
        device="cpu",
        number=None,
        began=1.0,
        settings={},
    )
    result = worker.measure(order, b"", [{"a": b"tar", "c": b"tar"}])
    assert (result.status, result.reason, result.tar) == (3, "a", b"")
