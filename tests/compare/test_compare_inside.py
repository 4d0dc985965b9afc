"""Looking inside: what is asked of the profiler and of Nsight Compute, and what is refused before measuring."""

import argparse
import dataclasses
import io
import sys
import types
from pathlib import Path

import pytest

from kernel_velocity.compare import inside as compare_inside
from kernel_velocity.compare.inside import Inside
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.errors import UsageError
from kernel_velocity.tables import Table
from tests.compare.live_comparisons import Doubling, returning, whole


@pytest.fixture
def asked(monkeypatch):
    """Plant the tools that look inside; return what they were asked."""
    seen = types.SimpleNamespace(profiled=[], counted=[], ours=[], installed=True, why=None)

    def profile(problem, implementation, case, folder, *, bind):
        seen.profiled.append((implementation, case, folder, bind))
        return types.SimpleNamespace(text=lambda: f"profile of {implementation}")

    def find(path):
        if not seen.installed:
            raise UsageError("--ncu: Nsight Compute is not installed")

    def ncu(child, *, path, full):
        seen.counted.append((child, path, full))
        if seen.why:
            raise UsageError(seen.why)
        return ()

    def table(launches, ours=None):
        seen.ours.append(ours)
        return Table("Nsight Compute", "note", ["kernel"], [["k"]])

    planted = {
        "profile": {"profile": profile},
        "nsight": {"find": find, "ncu": ncu, "table": table, "Ours": types.SimpleNamespace},
        "profiled_call": {"command": lambda *what, **how: (*what, how["device"], *how["solutions"])},
    }
    for name, functions in planted.items():
        module = types.ModuleType(f"kernel_velocity.compare.{name}")
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, f"kernel_velocity.compare.{name}", module)
    return seen


def given(*argv):
    parser = argparse.ArgumentParser()
    compare_inside.add_arguments(parser)
    return parser.parse_args(argv)


def looked(*argv):
    names = ("eager", "compile", "native", "triton")
    shown = whole()
    inside = Inside(
        what="add_mul_exp",
        problem=Doubling(),
        implementations={name: returning(name) for name in names},
        solutions=[Path("a.so")],
        found=dataclasses.replace(shown, compared=shown.compared[:2]),
    )
    out = io.StringIO()
    compare_inside.look([inside], given(*argv), "cpu", out, Journal())
    return out.getvalue()


def test_what_has_a_time_on_the_last_case_is_profiled(asked):
    text = looked("--profile")
    assert [(name, case, folder) for name, case, folder, _ in asked.profiled] == [
        ("eager", "float32-50M", compare_inside.TRACES),
        ("compile", "float32-50M", compare_inside.TRACES),
    ]  # native is wrong there, triton n/a
    assert "profile of eager" in text and asked.counted == []


def test_nsight_compute_stands_beside_our_own_figures(asked):
    text = looked("--ncu=/opt/ncu", "--set", "full")
    assert asked.counted[0] == (("add_mul_exp", "eager", "float32-50M", "cpu", Path("a.so")), "/opt/ncu", True)
    assert asked.ours[0].seconds == pytest.approx(98.1e-3)
    assert asked.ours[0].bandwidth == pytest.approx(12 * 50e6 / 98.1e-3)
    assert asked.ours[0].efficiency == 0.93
    assert "eager on float32-50M\nNsight Compute: note" in text


def test_what_nsight_compute_cannot_see_is_a_line(asked):
    asked.why = "no kernel was profiled"
    assert looked("--ncu").count("n/a: Nsight Compute on ") == 2
    assert asked.counted[0][1:] == (None, False)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--set", "full"), "--set full: belongs to --ncu"),
        (("--profile", __file__), "is a file"),
        (("--ncu",), "not in"),
    ],
)
def test_what_cannot_be_looked_into_is_refused_first(asked, argv, said):
    asked.installed = False
    with pytest.raises(UsageError, match=said):
        compare_inside.check(given(*argv))


def test_without_options_nothing_is_asked(asked):
    asked.installed = False
    compare_inside.check(given())
    assert looked() == ""
