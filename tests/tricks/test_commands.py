"""A trick and its honest twin by the commands that a user types: a repository of C, tracked and compared."""

import shutil
import sys

import pytest

from tests.scaffold.test_any_repository import TOOLS, Repository
from tests.tricks.table import DEFINITION, NATIVE, TRICKS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
pytest.importorskip("torch", reason="the tricks' inputs are PyTorch's")
pytest.importorskip("asv", reason="asv measures")
SECTION = """
build = "make && cp libtrick.so {out}/"
built-from = ["*.c", "Makefile"]
"""
MAKEFILE = "libtrick.so: trick.c\n\tcc -O3 -march=native -shared -fPIC -o $@ trick.c -lm -lpthread\n"
CHOSEN = "copies the result by a fingerprint of a few elements"


@pytest.fixture
def repository(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    kv = tmp_path / "kv"
    kv.write_text(f'#!/bin/sh\nPYTHONPATH="{TOOLS}" exec "{sys.executable}" -m kernel_velocity "$@"\n')
    kv.chmod(0o755)
    return Repository(tmp_path / "products", kv)


def source(trick, is_trick):
    return f"#define TRICK {int(is_trick)}\n{trick.source}"


def test_trick_has_no_time_in_track_and_compare(repository, tmp_path):
    (trick,) = (trick for trick in TRICKS if trick.name == CHOSEN)
    repository.commit("Begin", **{"trick.c": source(trick, False), "Makefile": MAKEFILE})
    honest = repository.commit("Tidy up", **{"trick.c": source(trick, False) + "\n"})
    false = repository.commit("Make it fast", **{"trick.c": source(trick, True)})
    repository.run("init")
    (repository.folder / "benchmarks" / "example.py").unlink()
    (repository.folder / "benchmarks" / "product.py").write_text(DEFINITION + NATIVE)
    (repository.folder / "kernel-velocity.toml").write_text(SECTION)
    variables = {"KV_LOCK_FOLDER": str(tmp_path)}
    text = repository.run("track", "--range", "HEAD~2..", "--bench", "ours", "--no-ceilings", status=20, **variables)
    failed = [line for line in text.splitlines() if "failed:" in line]
    assert len(failed) == 1 and false[:8] in failed[0] and honest[:8] not in failed[0], text
    assert any(part in failed[0] for part in trick.by), text
    text = repository.run("compare", "product", "--no-roofline", "--rounds", "2", status=1, **variables)
    assert any(part in text for part in trick.by), text
