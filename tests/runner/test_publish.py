"""The site, written in its own process: the same files and notes, and how that process ends."""

import pytest

from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.runner import host
from kernel_velocity.site import report


def files(out):
    return {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_site_and_notes_are_those_of_report(tree, tmp_path, monkeypatch):
    (tree.results / "odd").mkdir()
    (tree.results / "odd" / "01234567-env.json").write_text("[")
    monkeypatch.chdir(tmp_path)  # relative to the caller's folder
    notes = host.write_site(
        results=tree.results.relative_to(tmp_path), repository=tree.repository.relative_to(tmp_path), out=tmp_path / "a"
    )
    ours = report.write_site(results=tree.results, repository=tree.repository, out=tmp_path / "b")
    assert len(files(tmp_path / "a")) > 20
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert len(notes) == len(ours.notes) >= 1
    assert any("01234567-env.json" in note for note in notes)


def test_error_of_report_is_raised(tree, tmp_path):
    with pytest.raises(KernelVelocityError, match=f"^{tmp_path}/nowhere: no such directory"):
        host.write_site(results=tmp_path / "nowhere", repository=tree.repository, out=tmp_path / "site")


@pytest.mark.parametrize(
    ("program", "words"),
    [("kill -TERM $$", "was ended by SIGTERM"), ("echo Traceback >&2; exit 1", "ended with status 1\nTraceback")],
)
def test_abnormal_end_is_raised(tmp_path, monkeypatch, program, words):
    (tmp_path / "python").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(host.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(KernelVelocityError) as raised:
        host.write_site(results=tmp_path, repository=tmp_path, out=tmp_path / "site")
    assert str(raised.value) == f"the process that writes the site {words}"
