"""Implementations kept apart: what one does to its process is not the next one's; footprint, arithmetic, reference."""

import io
import math
from functools import partial

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.compare import api, isolation, selection, subject, table
from kernel_velocity.compare import case as compare_cases
from kernel_velocity.compare.api import compare
from kernel_velocity.compare.formats.figures import bound as in_words
from kernel_velocity.compare.isolation import Journal, Step
from kernel_velocity.compare.settings import Settings
from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.harness.stopping import FixedCount
from kernel_velocity.roofline.model import Level, Roofs
from tests.compare.live_comparisons import Doubling, case, comparison, returning, roofline, timed, writing

torch = pytest.importorskip("torch", reason="implementations compute with torch tensors")

QUICK = Settings(rounds=2, rule=partial(FixedCount, n=5), warmups=1)
ROOFS = Roofs(
    levels=(Level(name="L2", size=1 << 10, bandwidth=1e15), Level(name="DRAM", size=None, bandwidth=1e14)),
    peaks={"float32": 1e3, "tf32": 1e20},
)


def leaves_behind(do):
    """Return what binds a right implementation that also does something to its process."""

    def bind(problem, case, inputs):
        bound = writing()(problem, case, inputs)
        return type(bound)(lambda: (do(), bound.call()), bound.output, bound.poison)

    return bind


def looks(seen):
    """Return what binds a right implementation that looks at PyTorch's settings."""
    return leaves_behind(
        lambda: seen.add((torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()))
    )


def test_what_one_sets_of_pytorch_is_not_the_next_ones_and_is_said():
    def spoil():
        torch.set_num_threads(3)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(True)

    seen = set()
    both = {"eager": returning(lambda x: x * 2), "greedy": leaves_behind(spoil), "next": looks(seen)}
    found = compare(Doubling(), both, settings=QUICK)
    assert seen == {(1, torch.float32, False)}
    assert all(each.failed is None for compared in found.compared for each in compared.timed)
    said = [each for each in found.warnings if "greedy" in each]
    assert said == [
        f"doubling: greedy changes PyTorch's {what}; it was put back for the others"
        for what in ("threads from 1 to 3", "default dtype from float32 to float64", "grad mode from off to on")
    ]
    assert not any("next" in each or "eager" in each for each in found.warnings)


def test_random_numbers_are_the_same_for_everybody():
    drawn = {}

    def draws(name):
        return leaves_behind(lambda: drawn.setdefault(name, torch.rand(1).item()))

    compare(Doubling(), {"one": draws("one"), "two": draws("two")}, cases="small", settings=QUICK)
    assert drawn["one"] == drawn["two"]


@pytest.mark.usefixtures("lock_of_its_own")
def test_what_python_code_prints_goes_to_standard_error(tmp_path):
    (tmp_path / "mine.py").write_text("print('while loaded')\ndef solution(x, out, n):\n    out.copy_(2 * x)\n")
    (tmp_path / "p.py").write_text(
        "import torch\nfrom problem import Problem\n"
        "class P(Problem):\n"
        "    parameters = [dict(name='x', type='float', pointer=True, const=True),\n"
        "        dict(name='out', type='float', pointer=True, const=False),\n"
        "        dict(name='n', type='size_t', pointer=False, const=False)]\n"
        "    def __init__(self):\n        super().__init__('p')\n"
        "    def reference_solution(self, x):\n        print('while computed')\n        return 2 * x\n"
        "    def generate_test_cases(self):\n"
        "        return [dict(name='n8', dims=(8,), create_inputs=lambda: (torch.ones(8),))]\n"
        "    def verify_result(self, expected, actual):\n"
        "        print('while verified')\n        return bool(torch.equal(expected, actual)), {}\n"
    )
    out, err = io.StringIO(), io.StringIO()
    quick = ["--rounds=1", "--iters=1", "--device=cpu", "--no-roofline", "--implementations=eager,mine", "--json=-"]
    assert main(["compare", str(tmp_path / "p.py"), f"--solution={tmp_path / 'mine.py'}", *quick], out, err) == 0
    assert "while" not in out.getvalue()
    for said in ("while loaded", "while computed", "while verified"):
        assert said in err.getvalue()


def test_an_earlier_processs_death_is_a_failure_and_nothing_is_called_again(tmp_path):
    journal = Journal(tmp_path)
    (tmp_path / "step.json").write_text("{}")
    journal.bury(Step(doing="timed", implementation="mine", case="float32-small"), "died of SIGSEGV")
    called = []
    both = {"eager": returning(lambda x: x * 2), "mine": lambda *_: called.append(1)}
    found = compare(Doubling(), both, cases="small", settings=QUICK, journal=journal)
    dead = found.compared[0].timed[1]
    assert (dead.failed, called) == ("its process died of SIGSEGV while it was timed", [])
    assert Journal(tmp_path).kept("float32-small") == found.compared[0]
    again = compare(Doubling(), {"eager": both["mine"], "mine": both["mine"]}, cases="small", journal=journal)
    assert (again.compared, called) == (found.compared, [])  # taken over


def test_every_step_of_an_implementation_is_in_the_journal(tmp_path):
    journal, seen = Journal(tmp_path), set()

    def bind(problem, case, inputs):
        seen.add(journal.step().doing)
        bound = writing()(problem, case, inputs)
        return type(bound)(lambda: (seen.add(journal.step().doing), bound.call()), bound.output, bound.poison)

    compare(Doubling(), {"mine": bind}, cases="small", settings=QUICK, journal=journal)
    assert seen == {"set up", "verified before timing", "timed", "verified after timing"}
    assert journal.step() is None


class ManyPasses(Doubling):
    """Says that it passes over its data a thousand times."""

    def get_bytes(self, test_case):
        return 8000 * test_case["dims"][0]


class InPlace(Doubling):
    """Says that a call reads and writes one tensor."""

    def get_footprint(self, test_case):
        return 4 * test_case["dims"][0]


@pytest.mark.parametrize(("problem", "footprint"), [(Doubling, 8000), (ManyPasses, 8000), (InPlace, 4000)])
def test_traffic_is_no_footprint(problem, footprint):
    roofs = Roofs(
        levels=(Level(name="L2", size=1 << 14, bandwidth=1e15), Level(name="DRAM", size=None, bandwidth=1.0)), peaks={}
    )
    both = {"eager": returning(lambda x: x * 2), "mine": writing()}
    compared = compare(problem(), both, cases="small", settings=QUICK, roofs=roofs).compared[0]
    assert (compared.footprint, compared.memory) == (footprint, "L2")
    mine = compared.timed[1].roofline
    assert mine.bandwidth == pytest.approx(compared.bytes * mine.achieved / compared.flops)  # of the traffic
    assert not mine.impossible and mine.level == "L2"  # far above DRAM's slope, which the cache explains


def test_a_problem_in_place_needs_the_memory_that_it_touches():
    test = Doubling().generate_test_cases()[0]
    assert selection.needed(Doubling(), test, 2) == 2 * selection.needed(InPlace(), test, 2)


def test_the_history_too_goes_by_the_footprint(monkeypatch):
    from benchmarks import add_mul_exp

    monkeypatch.setattr(add_mul_exp.AddMulExp, "get_footprint", lambda self, test: 7)
    made = type("Again", (add_mul_exp.Cpu,), {})
    assert set(made.footprints.values()) == {7} and made.bytes == add_mul_exp.Cpu.bytes
    assert made()._working_set(made.time_hot, "float32-1M") == 7
    assert made()._working_set(made.time_cold, "float32-1M") == math.inf


def test_tensors_that_share_memory_count_once():
    x = torch.ones(10)
    test = Doubling().generate_test_cases()[0]
    assert compare_cases.footprint(Doubling(), test, [x, x[:2], torch.ones(3)]) == 40 + 12
    assert compare_cases.footprint(InPlace(), test, [torch.ones(5000)]) == 4000


def test_products_in_tf32_lie_below_tf32s_peak(monkeypatch):
    """On the CPU nothing is multiplied in TF32: what PyTorch allows is put into place."""
    taken = subject.Subject._take_round

    def take(self):
        taken(self)
        self.tf32 = self.name == "mine"

    monkeypatch.setattr(subject.Subject, "_take_round", take)
    both = {"eager": returning(lambda x: x * 2), "mine": writing()}
    (compared,) = compare(Doubling(), both, cases="small", settings=QUICK, roofs=ROOFS).compared
    eager, mine = (each.roofline for each in compared.timed)
    assert (eager.dtype, eager.bound, mine.dtype, mine.bound) == ("float32", "compute", "tf32", "memory")


def test_tf32_is_named_where_its_peak_binds():
    compared = case("float32-1M", 1_000_000, timed("eager", 1e-3, roofline=roofline(dtype="tf32", bound="compute")))
    (row,) = table.rows_of(compared)
    assert table.bound(row) == "tf32"
    from kernel_velocity.compare.formats.figures import rows

    (found,) = rows(comparison(compared))
    assert in_words(found) == "compute in TF32, DRAM"


@pytest.mark.parametrize("reference", [None, "native"])
def test_a_reference_without_a_time_is_said(reference):
    def wrong(problem, case, inputs):
        return writing(lambda out: out.fill_(3))(problem, case, inputs)

    settings = Settings(rounds=2, rule=partial(FixedCount, n=5), warmups=1, reference=reference)
    both = {"native": wrong, "eager": returning(lambda x: x * 2), "other": writing()}
    found = compare(Doubling(), both, cases="small", settings=settings)
    said = (
        "doubling float32-small: the reference native has no time there, so speed-ups are relative to eager "
        "and whoever comes first of two"
    )
    assert said in found.warnings
    both.pop("native")
    right = compare(Doubling(), both, cases="small", settings=QUICK)
    assert not any("reference" in each for each in right.warnings)
    assert list(api.without_reference(right.compared, QUICK, {})) == [said.replace("native", "none")]


class LostError(Exception):
    """Stands for the end of the process."""


def loses_the_device(times):
    """Return what binds an implementation that raises, after which the device answers with an error so many times."""
    left = []

    def synchronize(device):
        if left:
            left.pop()
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be ...")

    def bind(problem, case, inputs):
        left.extend([1] * times)
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    return synchronize, bind


def test_a_lost_device_ends_the_process_and_the_next_one_knows(tmp_path, monkeypatch):
    synchronize, bind = loses_the_device(2)

    def leave(status):
        raise LostError(status)

    monkeypatch.setattr(subject, "synchronize", synchronize)
    monkeypatch.setattr(isolation.os, "_exit", leave)
    journal = Journal(tmp_path)
    with pytest.raises(LostError, match="70"):
        compare(Doubling(), {"mine": bind}, cases="small", settings=QUICK, journal=journal)
    step = journal.step()
    assert (step.implementation, step.case, step.doing) == ("mine", "float32-small", "set up")
    assert step.how == "lost the device (CUDA error: an illegal memory access was encountered)"


def test_a_lost_device_without_a_process_that_goes_on_is_one_line(monkeypatch):
    synchronize, bind = loses_the_device(2)
    monkeypatch.setattr(subject, "synchronize", synchronize)
    with pytest.raises(KernelVelocityError, match="mine float32-small: the device is lost to this process: CUDA error"):
        compare(Doubling(), {"mine": bind}, cases="small", settings=QUICK)


def test_an_error_that_is_told_once_is_a_failure_like_any_other(monkeypatch):
    synchronize, bind = loses_the_device(1)
    monkeypatch.setattr(subject, "synchronize", synchronize)
    both = {"mine": bind, "eager": returning(lambda x: x * 2)}
    mine, eager = compare(Doubling(), both, cases="small", settings=QUICK).compared[0].timed
    assert "illegal memory access" in mine.failed and eager.failed is None
