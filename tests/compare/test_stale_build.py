"""A library that is older than what it would be built from is refused: its times and results are of other code."""

import os

import pytest

from kernel_velocity.compare.problems import load as stale_build
from kernel_velocity.errors import UsageError

BUILT = 1_000_000_000_000_000_000  # ns since the epoch


@pytest.fixture
def tree(tmp_path):
    """A folder of two kernels, built."""
    for name in ("mine/mine.cpp", "mine/mine.cu", "mine/__init__.py", "other/other.cpp", "other/blocks.h"):
        written(tmp_path / "kernels" / name, BUILT - 1)
    for name in ("_native/kv.h", "_native/threads.cpp", stale_build.LIBRARY):
        written(tmp_path / "kernels" / name, BUILT)
    return tmp_path / "kernels"


def written(path, when):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    os.utime(path, ns=(when, when))


def test_a_library_as_new_as_its_sources_is_fine(tree):
    stale_build.check(tree, "mine")


@pytest.mark.parametrize(
    "name", ["mine/mine.cpp", "mine/mine.cu", "_native/kv.h", "_native/threads.cpp", "other/blocks.h"]
)
def test_what_was_changed_after_the_build_is_named(tree, name):
    written(tree / name, BUILT + 1)
    with pytest.raises(UsageError, match=f"^kernels/{name} was changed after .*: run `make build`"):
        stale_build.check(tree, "mine")


@pytest.mark.parametrize("name", ["mine/__init__.py", "other/other.cpp"])
def test_what_the_library_of_this_kernel_is_not_built_from_may_change(tree, name):
    written(tree / name, BUILT + 1)
    stale_build.check(tree, "mine")


def test_a_wheel_without_sources_and_a_tree_without_a_library_are_none_of_its_business(tree, tmp_path):
    written(tmp_path / "wheel" / "kernels" / stale_build.LIBRARY, BUILT)
    stale_build.check(tmp_path / "wheel" / "kernels", "mine")
    (tree / stale_build.LIBRARY).unlink()
    written(tree / "mine/mine.cpp", BUILT + 1)
    stale_build.check(tree, "mine")


def test_a_comparison_asks(monkeypatch):
    torch_free = pytest.importorskip("torch", reason="problems make torch tensors")
    from kernel_velocity.compare.problems.load import load

    assert torch_free
    asked = []
    monkeypatch.setattr(stale_build, "check", lambda kernels, kernel: asked.append((kernels.name, kernel)))
    loaded = load("quantize_int8", "cpu")
    case = loaded.problem.generate_test_cases()[0]
    loaded.implementations["native"](loaded.problem, case["name"], case["create_inputs"]())
    assert asked == [("kernels", "quantize_int8")]
