"""The ceilings of a session of `make track`: measured once, for the newest commit, and never at a session's cost."""

import json

import pytest

from tests.faults.tiny import FASTER

SUITE = """
class Cpu:
    version = "1"

    def setup_cache(self):
        {before}
        return 5.0

    def track_peak_float32(self, found):
        return found

    track_peak_float32.unit = "FLOP/s"

    def track_l1_size(self, found):
        return None
"""


def ceilings(tiny, commit):
    data = json.loads((tiny.results / f"{commit[:8]}-{tiny.environment}.json").read_text())
    return {name: row[0] for name, row in data["results"].items() if name.startswith("device.")}


def plant(tiny, before="pass"):
    (tiny.root / "benchmarks" / "device.py").write_text(SUITE.format(before=before))
    old = tiny.git("rev-parse", "HEAD").strip()
    return old, tiny.commit("Faster", kernel=FASTER)


@pytest.mark.slow
def test_the_newest_commit_has_them(tiny):
    old, new = plant(tiny)
    done = tiny.track()
    assert done.returncode == 0, done.stdout
    assert "what the machine can do at most" in done.stdout
    assert ceilings(tiny, new) == {"device.Cpu.track_peak_float32": [5.0], "device.Cpu.track_l1_size": None}
    assert ceilings(tiny, old) == {}
    assert "what the machine can do" not in tiny.track().stdout  # nothing was measured


@pytest.mark.slow
def test_what_goes_wrong_is_a_note(tiny):
    _, new = plant(tiny, before="raise OSError('the disk is full')")
    done = tiny.track()
    assert done.returncode == 0, done.stdout
    (note,) = [line for line in done.stdout.splitlines() if line.startswith("note: the machine's ceilings")]
    assert "status 2" in note
    assert set(ceilings(tiny, new).values()) == {None}
    assert "2 commits measured" in done.stdout
