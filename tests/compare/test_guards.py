"""Outputs between guards: a write beside one is counted; a solution that makes one is named, not timed."""

import subprocess
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.compare.api import compare
from kernel_velocity.compare.guards import GUARD, guarded, overwritten
from kernel_velocity.compare.problems.solutions import binder
from kernel_velocity.compare.settings import Settings
from kernel_velocity.harness.stopping import FixedCount
from tests.compare.live_comparisons import Doubling

torch = pytest.importorskip("torch", reason="outputs are torch tensors")

QUICK = Settings(rounds=2, rule=partial(FixedCount, n=5), warmups=1)
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_output_between_guards_is_like_any_other(dtype, shape):
    found = guarded(torch.empty(shape, dtype=dtype))
    found.output.fill_(1)
    assert found.output.shape == shape and found.output.dtype == dtype and found.output.is_contiguous()
    assert bool((found.output == torch.ones(shape, dtype=dtype)).all())
    assert found.overwritten() == ""


def test_it_lies_in_its_page_as_it_would_without_guards():
    output = guarded(torch.empty(100)).output
    assert output.storage_offset() * output.element_size() == GUARD
    assert GUARD % 4096 == 0


@settings(deadline=None)
@given(st.integers(1, 9), st.sets(st.integers(-GUARD, -1)), st.sets(st.integers(0, GUARD - 1)))
def test_every_byte_that_is_written_beside_it_is_counted(elements, before, behind):
    found = guarded(torch.empty(elements))
    memory = torch.tensor([], dtype=torch.uint8).set_(found.output.untyped_storage())
    end = GUARD + found.output.numel() * found.output.element_size()
    for place in (*(GUARD + offset for offset in before), *(end + offset for offset in behind)):
        memory[place] = 0
    said = {"before": len(before), "behind": len(behind)}
    assert found.overwritten() == ", ".join(f"{count} bytes {side} it" for side, count in said.items() if count)


def test_which_output_it_is_beside_is_said():
    low, high = guarded(torch.empty(3)), guarded(torch.empty(3))
    high.behind[0] = 0
    assert overwritten(("low", "high"), (low, high)) == "high: 1 bytes behind it"
    assert overwritten((), ()) == ""


def solved(tmp_path, statement):
    """Return what becomes of a C solution that does what is right, and a statement more."""
    source, library = tmp_path / "mine.cpp", tmp_path / "mine.so"
    source.write_text(f"""
    #include <stddef.h>
    extern "C" void solution(const float* x, float* out, size_t n) {{
        static int calls = 0;
        ++calls;
        for (size_t i = 0; i < n; ++i) out[i] = 2 * x[i];
        {statement}
    }}""")
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    problem = Doubling()
    return compare(problem, {"mine": binder(library, problem)}, cases="small", settings=QUICK).compared[0].timed[0]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("out[n] = out[n + 1] = 3;", "out: 8 bytes behind it (before timing)"),
        ("out[-1] = 3;", "out: 4 bytes before it (before timing)"),
        ("if (calls > 1) out[n] = 3;", "out: 4 bytes behind it (after timing)"),
    ],
)
def test_a_solution_that_writes_beside_its_output_is_named(tmp_path, statement, said):
    assert solved(tmp_path, statement).failed == f"it wrote beside its outputs: {said}"


def test_a_solution_that_does_not_is_timed(tmp_path):
    found = solved(tmp_path, "")
    assert found.failed is None and len(found.rounds) == 2
