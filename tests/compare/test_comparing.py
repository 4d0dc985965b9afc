"""The engine: verified before and after, interleaved, refused before allocated, kept apart from one another."""

import math
import random
import re
import sys
import types
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep

import numpy
import pytest

from kernel_velocity.compare import isolation, job, subject
from kernel_velocity.compare.api import compare, time_function
from kernel_velocity.compare.isolation import ProcessJournal
from kernel_velocity.compare.result import FAILED
from kernel_velocity.compare.settings import TimingSettings
from kernel_velocity.compare.subject import TimedRound, take_round, tensor_facts, time_of_function
from kernel_velocity.engine import reported
from kernel_velocity.engine.reported import HostActivity
from kernel_velocity.engine.stopping import FixedCount
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.problem.accuracy import parse_tolerance
from kernel_velocity.problem.implementations import Module, fresh
from kernel_velocity.roofline.model import Roofs
from tests.compare.doubling import EAGER, ELEMENTS, QUICK, ROOFS, Doubling, DoublingBytes, doing, returning, writing
from tests.engine import pretend_cuda
from tests.machine.planted_limits import plant_limits

torch = pytest.importorskip("torch", reason="implementations compute with torch tensors")


def timed_mine(problem, bind, settings=QUICK):
    """Return what became of one implementation on the small case."""
    (compared,) = compare(problem, {**EAGER, "mine": bind}, cases="small", settings=settings).compared
    assert compared.timed[0].failed is None
    return compared.timed[1]


def timed_of(problem, implementations, **more):
    (compared,) = compare(problem, implementations, cases="small", settings=QUICK, **more).compared
    return {timed.implementation: timed for timed in compared.timed}


def set_at(index, value):
    return lambda out: out.__setitem__(index, value)


# What is possible -----------------------------------------------------------------------------------------------------


def test_call_that_is_faster_than_the_machine_has_failed(monkeypatch, tmp_path):
    monkeypatch.setenv("ASV_CONF_DIR", str(tmp_path))
    plant_limits(monkeypatch, cache=1e3)
    (compared,) = compare(Doubling(), EAGER, cases="small", settings=QUICK).compared
    (timed,) = compared.timed
    assert timed.status == FAILED and timed.estimates == ()
    assert re.match(
        r"faster than the machine \([\d,]+ times the peak of 0 GB/s of the innermost cache\); ", timed.failed
    )


# What is right -------------------------------------------------------------------------------------------------------


def test_right_output_is_timed_in_every_round():
    timed = timed_mine(Doubling(), writing())
    assert (timed.failed, timed.missing, timed.stops) == (None, None, ("complete", "complete"))
    assert [len(samples) for samples in timed.rounds] == [5, 5]
    assert len(timed.estimates) == 2 and all(0 < seconds < 1 for seconds in timed.estimates)
    (accuracy,) = timed.accuracy
    assert accuracy.right and accuracy.output == "out" and accuracy.details["max_absolute_error"] == 0


def test_rounds_of_the_history_are_the_default(monkeypatch):
    monkeypatch.setenv("KV_PATIENCE", "0")
    timed = timed_mine(Doubling(), writing(), TimingSettings(rounds=1, rule=FixedCount(n=10)))
    assert [len(samples) for samples in timed.rounds] == [8]  # without the burn-in


def test_case_has_its_figures():
    comparison = compare(Doubling(), EAGER, cases="large", settings=QUICK, roofs=ROOFS)
    (compared,) = comparison.compared
    assert (compared.problem, compared.case, compared.device) == ("doubling", "float32-large", "cpu")
    assert (compared.dtype, compared.dims, compared.elements) == ("float32", (2000,), 2000)
    assert (compared.tensor_bytes, compared.flops, compared.bytes, compared.memory) == (8000, 2000, 16000, "L2")
    eager = compared.timed[0].roofline
    assert eager.bandwidth == pytest.approx(compared.bytes * eager.achieved / compared.flops)
    assert comparison.settings["reference"] == "eager" and comparison.environment["torch"] == torch.__version__
    without = compare(Doubling(), EAGER, cases="small", settings=QUICK)
    assert without.compared[0].timed[0].roofline is None and without.took > 0


def test_int8_product_has_the_peak_of_int8_and_writes_int32():
    class Widening(DoublingBytes):
        """x (n,) int8 -> out = 2 x as int32, as products of int8 are."""

        def reference_solution(self, *inputs):
            return inputs[0].int() * 2

    peaks = Roofs(levels=(), peaks={"int8": 1e3, "int32": 1e12})
    comparison = compare(
        Widening(), {"eager": returning(lambda x: x.int() * 2)}, cases="large", settings=QUICK, roofs=peaks
    )
    (compared,) = comparison.compared
    assert compared.dtype == "int8" and compared.timed[0].roofline.attainable == pytest.approx(1e3)


def test_tf32_products_lie_below_tf32s_peak(monkeypatch):
    """The CPU has no TF32 products: the flag is set by hand."""
    take_round = subject.Subject.take_round

    def take(self, work, **more):
        take_round(self, work, **more)
        self.tf32 = self.name == "mine"

    monkeypatch.setattr(subject.Subject, "take_round", take)
    roofs = replace(ROOFS, peaks={"float32": 1e3, "tf32": 1e20})
    eager, mine = (timed.roofline for timed in timed_of(Doubling(), {**EAGER, "mine": writing()}, roofs=roofs).values())
    assert (eager.dtype, eager.bound, mine.dtype, mine.bound) == ("float32", "compute", "tf32", "memory")


class ManyPasses(Doubling):
    """Says that it passes over its data a thousand times."""

    def get_bytes(self, test_case):
        return 8000 * test_case["dims"][0]


class InPlace(Doubling):
    """Says that a call reads and writes one tensor."""

    def get_footprint(self, test_case):
        return 4 * test_case["dims"][0]


@pytest.mark.parametrize(("problem", "footprint"), [(Doubling, 8000), (ManyPasses, 8000), (InPlace, 4000)])
def test_footprint_is_no_traffic(problem, footprint):
    (compared,) = compare(problem(), EAGER, cases="small", settings=QUICK, roofs=ROOFS).compared
    assert (compared.footprint, compared.memory) == (footprint, "L2")
    assert not compared.timed[0].roofline.impossible


def test_footprint_counts_shared_memory_once():
    x, test = torch.ones(10), Doubling().generate_test_cases()[0]
    assert job.footprint(Doubling(), test, tensor_facts([x, x[:2], torch.ones(3)])) == 40 + 12


def test_history_goes_by_the_footprint_too(monkeypatch):
    from benchmarks import add_mul_exp

    monkeypatch.setattr(add_mul_exp.AddMulExp, "get_footprint", lambda self, test: 7)
    again = type("Again", (add_mul_exp.Cpu,), {})
    assert set(again.footprints.values()) == {7} and again.bytes == add_mul_exp.Cpu.bytes
    sets = []
    monkeypatch.setattr("kernel_velocity.engine.quiet.on_cpu", lambda size, *_: sets.append(size))
    for cold in (False, True):
        again()._gate("eager", "float32-1M", cold=cold)
    assert sets == [7, math.inf]


# What is wrong -------------------------------------------------------------------------------------------------------


def short_of_the_last(problem, case, inputs):
    """Bind a kernel that leaves the last element as it was."""
    bound = writing()(problem, case, inputs)
    out = bound.output()
    return type(bound)(lambda: torch.mul(inputs[0][:-1], 2, out=out[:-1]), bound.output, bound.poison)


@pytest.mark.parametrize(
    ("problem", "bind", "words"),
    [
        (Doubling, writing(set_at(317, math.nan)), "317"),
        (Doubling, writing(set_at(3, math.inf)), "3"),
        (DoublingBytes, writing(lambda out: out[41].add_(1)), "41"),
        (Doubling, returning(lambda x: x[:-1] * 2), f"({ELEMENTS - 1},)"),
        (Doubling, returning(lambda x: (x * 2).reshape(2, -1)), "(2, 500)"),
        (Doubling, returning(lambda x: None), "wrong"),
        (DoublingBytes, short_of_the_last, f"{ELEMENTS - 1}"),
    ],
    ids=["nan", "infinity", "off by one", "short", "reshaped", "nothing", "last"],
)
def test_wrong_output_is_named_and_not_timed(problem, bind, words):
    timed = timed_mine(problem(), bind)
    assert "out is wrong" in timed.failed and words in timed.failed and "before timing" in timed.failed
    assert timed.rounds == () and timed.roofline is None and not timed.accuracy[0].right


class Unseeded(Doubling):
    """Its inputs are others each time, and one of them is NaN."""

    def create(self, name, n):
        values = torch.rand(n)
        values[7] = math.nan
        return (values,)


@pytest.mark.parametrize("change", [lambda x: x.mul_(2), lambda x: x.copy_(x.flip(0)), lambda x: x.resize_(3)])
def test_changed_inputs_are_restored(change):
    timed = timed_of(Unseeded(), {"greedy": doing(lambda x, call: change(x)), "good": writing()})
    assert timed["greedy"].failed == "it changed its inputs: x (before timing)"
    assert timed["good"].failed is None and len(timed["good"].rounds) == 2


@pytest.mark.parametrize("names", [("late", "good"), ("good", "late")])
def test_inputs_changed_while_timed_blame_nobody_else(names):
    both = {"late": doing(lambda x, call: x.add_(1) if call == 4 else None), "good": writing()}
    timed = timed_of(Doubling(), {name: both[name] for name in names})
    assert timed["late"].failed == "it changed its inputs: x (while timed)"
    assert timed["good"].failed is None and timed["good"].accuracy[0].right


@pytest.mark.parametrize("error", [SystemExit(0), NotImplementedError("no more")])
def test_giving_up_while_timed_is_a_failure(error):
    def tire(x, call):
        if call > 3:
            raise error

    timed = timed_mine(Doubling(), doing(tire))
    assert timed.missing is None and timed.failed.startswith(f"raised {type(error).__name__}")


def test_right_only_once_is_wrong():
    calls = []
    spoiled = timed_mine(Doubling(), writing(lambda out: (calls.append(1), len(calls) > 8 and out[-1:].zero_())))
    assert "after timing" in spoiled.failed and spoiled.roofline is None

    def lazy(problem, case, inputs):
        bound = writing()(problem, case, inputs)
        todo = [bound.call]
        return type(bound)(lambda: todo and todo.pop()(), bound.output, bound.poison)

    stale = timed_mine(Doubling(), lazy)  # what an earlier call wrote does not count
    assert "after timing" in stale.failed and f"{ELEMENTS} of {ELEMENTS}" in stale.failed


def test_random_numbers_of_the_problem_blame_nobody():
    """The audit draws inputs from PyTorch's own generator, as a public file does. So do its reference and its check."""

    class Drawing(Doubling):
        def generate_test_cases(self):
            return [
                {**case, "create_inputs": lambda: (torch.rand(ELEMENTS),)} for case in super().generate_test_cases()
            ]

        def reference_solution(self, *inputs):
            torch.rand(1)
            return super().reference_solution(*inputs)

        def verify_result(self, *results):
            torch.rand(1)
            return super().verify_result(*results)

    def draw(x, call):
        torch.rand(1)

    def bind(problem, case, inputs):
        torch.rand(1)  # as a solution's outputs are made where the problem alone knows their shapes
        return writing()(problem, case, inputs)

    both = {"quiet": bind, "drawing": doing(draw)}
    warnings = compare(Drawing(), both, cases="small", settings=QUICK).warnings
    assert [warning.split()[1] for warning in warnings if "random numbers" in warning] == ["drawing"]


class Scattering(Doubling):
    """Its reference adds noise that `draw` makes, of about the same size each time."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def reference_solution(self, *inputs):
        return super().reference_solution(*inputs) + self.draw(ELEMENTS)


@pytest.mark.parametrize(
    "draw",
    [torch.rand, lambda count: torch.full((count,), random.random()), lambda count: numpy.random.rand(1).item()],
)
def test_reference_that_draws_gets_equal_random_numbers(draw):
    def bind(problem, case, inputs):
        return fresh(lambda: problem.reference_solution(*inputs))

    comparison = compare(Scattering(draw), {"same": bind}, cases="small", settings=QUICK)
    assert comparison.compared[0].timed[0].failed is None
    assert not any("reproduce" in warning for warning in comparison.warnings)


def test_nothing_is_wrong_within_the_scatter_of_the_reference():
    noise = numpy.random.default_rng(1)  # which nobody can set back
    problem = Scattering(lambda count: torch.as_tensor(noise.random(count), dtype=torch.float32))
    offsets = {"within": 0.5, "beyond": 9.0}
    both = {name: writing(lambda out, by=offset: out.add_(by)) for name, offset in offsets.items()}
    comparison = compare(problem, both, cases="small", settings=QUICK)
    within, beyond = comparison.compared[0].timed
    assert within.failed is None and "wrong" in beyond.failed
    (line,) = [warning for warning in comparison.warnings if "does not reproduce itself" in warning]
    assert "4 calls lie up to 0.9" in line or "4 calls lie up to 1 " in line


def test_pytorchs_settings_are_restored_and_noted():
    def spoil(x, call):
        torch.set_num_threads(3)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(True)

    settings, drawn = set(), []

    def look(x, call):
        settings.add((torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()))
        drawn.append(torch.rand(1).item())

    three = {"one": doing(look), "greedy": doing(spoil), "next": doing(look)}
    comparison = compare(Doubling(), three, cases="small", settings=QUICK)
    assert settings == {(1, torch.float32, False)}
    assert drawn[0] == drawn[1]  # each draws the same random numbers as it is verified
    assert all(timed.failed is None for timed in comparison.compared[0].timed)
    assert [warning for warning in comparison.warnings if "greedy" in warning] == [
        f"doubling: greedy changes PyTorch's {what}, which was restored for the others"
        for what in ("threads from 1 to 3", "default dtype from float32 to float64", "grad mode from off to on")
    ]


# Turns, progress, reference ------------------------------------------------------------------------------------------


def test_implementations_take_turns(monkeypatch):
    turns = []

    def take(call, rule, device, **more):
        call()
        return TimedRound(samples=(1.0,), estimate=1.0, stop="complete", flags=())  # slow: the audited call is near

    monkeypatch.setattr(subject, "take_round", take)
    three = {name: doing(lambda x, call, name=name: turns.append(name)) for name in "abc"}
    compare(Doubling(), three, cases="small", settings=TimingSettings(rounds=4))
    assert "".join(turns[3:-6]) == "abcbcacabcba"  # between the first verification, and the second and an audit


def test_progress_goes_from_nothing_to_all():
    calls = []
    compare(Doubling(), EAGER, settings=QUICK, progress=lambda what, done: calls.append((what, done)))
    shares = [done for _, done in calls]
    assert shares == sorted(shares) and shares[0] == 0 and 0.5 < shares[-1] < 1
    assert any("float32-large round 2/2 eager" in what for what, _ in calls)


@pytest.mark.parametrize("reference", [None, "native"])
def test_reference_without_a_time_is_a_warning(reference):
    both = {"native": writing(lambda out: out.fill_(3)), **EAGER, "other": writing()}
    comparison = compare(Doubling(), both, cases="small", settings=replace(QUICK, reference=reference))
    assert (
        "doubling float32-small: the reference native has no time there, so speed-ups are relative to eager"
    ) in comparison.warnings
    right = compare(Doubling(), {**EAGER, "other": writing()}, cases="small", settings=QUICK)
    assert not any("reference" in warning for warning in right.warnings)


# Refused -------------------------------------------------------------------------------------------------------------


def test_case_for_which_memory_runs_out_is_left_out():
    class Greedy(Doubling):
        def reference_solution(self, *inputs):
            if inputs[0].numel() == 2 * ELEMENTS:
                torch.empty(1 << 60, dtype=torch.uint8)
            return super().reference_solution(*inputs)

    comparison = compare(Greedy(), {"mine": writing()}, settings=QUICK)
    assert [compared.case for compared in comparison.compared] == ["float32-small"]
    assert "doubling float32-large: out of memory" in comparison.warnings[0]
    assert comparison.warnings[0].endswith("select smaller cases (--sizes, --sample)")


def test_memory_runs_out_for_the_only_case():
    class Greedy(Doubling):
        def generate_test_cases(self):
            return super().generate_test_cases()[:1]

        def reference_solution(self, *inputs):
            torch.empty(1 << 60, dtype=torch.uint8)

    with pytest.raises(UsageError, match=r"out of memory.*; it is the only case: make its inputs smaller$"):
        compare(Greedy(), {"mine": writing()}, settings=QUICK)


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="Linux says how much memory a process has")
def test_process_takes_at_most_its_share_of_the_memory():
    free = reported.free_memory("cpu")
    with reported.memory_bound("cpu", 0.5), pytest.raises(RuntimeError, match="can't allocate memory"):
        torch.empty(int(0.7 * free), dtype=torch.uint8)
    assert torch.empty(1 << 20).numel() == 1 << 20


def no_cuda(*inputs):
    raise AssertionError("Torch not compiled with CUDA enabled")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (no_cuda, "doubling float32-small: its reference raised AssertionError: Torch not compiled"),
        (lambda x: x.mul_(2), r"its reference changes its inputs \(x\)"),
    ],
)
def test_reference_that_raises_or_works_in_place_is_refused(reference, words):
    problem = Doubling()
    problem.reference_solution = reference
    with pytest.raises(UsageError, match=words):
        compare(problem, EAGER, settings=QUICK)


# Accuracy: who decides -----------------------------------------------------------------------------------------------


def judging(verdict, problem=Doubling):
    judged = problem()
    judged.verify_result = verdict
    return judged


def test_problem_decides_on_what_is_finite():
    lax = judging(lambda expected, actual: (True, {}))
    assert "nan" in timed_mine(lax, writing(set_at(5, math.nan))).failed
    assert timed_mine(lax, writing(lambda out: out[5].add_(1.0))).failed is None
    strict = judging(lambda expected, actual: (torch.equal(expected, actual), {"mismatches": 1}))
    assert (
        "mismatches 1" in timed_mine(strict, writing(lambda out: out[49].add_(1e-5))).failed
    )  # 98 and a step of float32


def test_tolerance_decides_in_place_of_the_problem():
    lax = replace(QUICK, tolerance=parse_tolerance("1"))
    assert timed_mine(DoublingBytes(), writing(lambda out: out[41].add_(1)), lax).failed is None
    assert timed_mine(DoublingBytes(), writing(lambda out: out[41].add_(2)), lax).failed is not None


def test_output_that_is_no_copy_is_wrong():
    def strided(problem, case, inputs):
        return fresh(lambda: torch.stack([inputs[0] * 2] * 2, -1)[..., 0])

    why = "wrong: out is not contiguous, unlike the reference's: return a contiguous copy (before timing)"
    assert timed_of(Doubling(), {**EAGER, "mine": strided})["mine"].failed == why


# The whole function, and rounds --------------------------------------------------------------------------------------


def test_work_outside_of_the_timed_call_is_refused(timer, monkeypatch):
    monkeypatch.setattr(subject, "audit", lambda *_, **__: ())  # the timer counts, whatever is called

    def bind(problem, case, inputs):
        return replace(fresh(lambda: inputs[0] * 2), function=lambda: sleep(0.002))

    failed = timed_of(Doubling(), {"mine": bind})["mine"].failed
    assert failed.startswith("its whole function takes ") and failed.endswith("its work lies outside of the timed call")


def test_function_of_a_call_that_allocates_is_the_call():
    timed = timed_of(Doubling(), {**EAGER, "mine": writing()})
    assert timed["eager"].function == sum(timed["eager"].estimates) / 2
    assert timed["mine"].function is None


def test_native_function_is_timed_with_its_allocation(monkeypatch):
    module, called = types.ModuleType("kernels.doubling"), []
    module.doubling = lambda x: (called.append(1), x * 2)[1]

    def bind(x, out):
        def call():
            torch.mul(x, 2, out=out)

        return call

    module.bind = bind
    monkeypatch.setitem(sys.modules, "kernels.doubling", module)
    monkeypatch.setattr(Doubling, "empty_output", lambda self, inputs: torch.empty_like(inputs[0]))
    monkeypatch.setattr(Module, "check", lambda self, problem, case: module)
    assert timed_of(Doubling(), {"native": Module("kernels.doubling")})["native"].function > 0
    assert len(called) > 2 * 3  # in each of the rounds


def test_cuda_function_is_waited_for_and_rounds_use_events(monkeypatch):
    synchronised = pretend_cuda.plant(monkeypatch, torch)
    monkeypatch.setattr(subject, "TorchEvents", pretend_cuda.HostEvents)
    eager = timed_of(Doubling("cuda"), EAGER)["eager"]
    assert (eager.failed, len(eager.rounds)) == (None, 2)
    assert eager.function is not None and synchronised


def test_function_that_is_slow_has_few_samples():
    calls = []
    time_of_function(partial(calls.append, 1), "cpu", per_call=0.5)
    assert len(calls) == 1 + subject.FUNCTION_FEWEST


class Counting:
    """A timer whose samples are 1, 2, 3, ... µs, which makes the calls."""

    by_wall = False

    def __init__(self):
        self.flags, self.batches, self.count = set(), set(), 0

    def samples(self, call, batch, n):
        for _ in range(batch * n):
            call()
        self.batches.add(batch)
        self.count += n
        return [(self.count - n + number + 1) * 1e-6 for number in range(n)]

    def overhead(self):
        return 0.0


@pytest.fixture
def timer(monkeypatch):
    counting = Counting()
    monkeypatch.setattr(subject.timing, "plain", lambda device: counting)
    return counting


def test_round_as_published_has_warm_ups_and_a_sample_is_a_call(timer):
    calls = []
    measured = take_round(partial(calls.append, 1), FixedCount(n=20), "cpu", warmups=7)
    assert len(calls) == 7 + 20 and timer.batches == {1}
    assert measured.samples == pytest.approx([number * 1e-6 for number in range(1, 21)])  # no burn-in is left out
    assert (measured.estimate, measured.stop) == (pytest.approx(10.5e-6), "complete")


def test_round_has_the_flags_of_timer_and_host(timer, monkeypatch):
    timer.flags.add("underfed")
    monkeypatch.setattr(subject, "activity", lambda *_: HostActivity(99, None, None, contended=True, ran=(1.0,)))
    assert take_round(lambda: None, FixedCount(n=2), "cpu", warmups=0).flags == ("underfed", "contended")


def test_round_of_the_history_waits_for_quiet_cores(monkeypatch):
    waits, real = [], subject.quiet.on_cpu

    def on_cpu(working_set, folder, environ):
        waits.append((working_set, environ["KV_THREADS"]))
        return real(working_set, folder, {**environ, "KV_PATIENCE": "0"})

    monkeypatch.setattr(subject.quiet, "on_cpu", on_cpu)
    take_round(lambda: sum(range(1000)), FixedCount(n=10), "cpu", working_set=4.0, threads=2)
    assert waits == [(4.0, "2")]


def test_time_function_has_an_interval(monkeypatch):
    monkeypatch.setenv("KV_PATIENCE", "0")
    timing = time_function(lambda: sum(range(2000)), rule="fixed", rounds=3)
    assert 1e-6 < timing.seconds < 1e-2
    assert timing.interval.low <= timing.seconds <= timing.interval.high


# Processes that end --------------------------------------------------------------------------------------------------


@pytest.fixture
def shared_process(monkeypatch):
    """Have implementations of a lasting journal share this process, which is no command's."""
    monkeypatch.setattr(job, "kind_of_subjects", lambda *_: subject.Subject)


@pytest.mark.usefixtures("shared_process")
def test_journal_has_every_step_of_an_implementation(tmp_path):
    journal, steps = ProcessJournal(tmp_path), set()

    def bind(problem, case, inputs):
        steps.add(journal.step().doing)
        return doing(lambda x, call: steps.add(journal.step().doing))(problem, case, inputs)

    compare(Doubling(), {"mine": bind}, cases="small", settings=QUICK, journal=journal)
    assert steps == {"set up", "verified before timing", "timed", "verified after timing", "audited"}
    assert journal.step() is None


@pytest.fixture
def losing(monkeypatch, shared_process):
    """Make an implementation that raises, after which the device reports an error `left` times."""
    state = types.SimpleNamespace(left=0, ended=[])
    error = RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be ...")

    def synchronize(device):
        if state.left:
            state.left -= 1
            raise error

    def leave(status):
        raise KeyboardInterrupt(status)  # stands for the end of the process

    def bind(problem, case, inputs):
        state.left = state.errors
        raise error

    monkeypatch.setattr(subject, "synchronize", synchronize)
    monkeypatch.setattr(isolation.os, "_exit", leave)
    state.bind = bind
    return state


def test_lost_device_ends_the_process_and_is_recorded(tmp_path, losing):
    losing.errors, journal = 2, ProcessJournal(tmp_path)
    with pytest.raises(KeyboardInterrupt, match="70"):
        compare(Doubling(), {"mine": losing.bind}, cases="small", settings=QUICK, journal=journal)
    step = journal.step()
    assert (step.implementation, step.case, step.doing) == ("mine", "float32-small", "set up")
    assert step.how == "lost the device (CUDA error: an illegal memory access was encountered)"
    with pytest.raises(KernelVelocityError, match="mine float32-small: the device is lost to this process: CUDA error"):
        compare(Doubling(), {"mine": losing.bind}, cases="small", settings=QUICK)


def test_device_that_reports_an_error_once_is_not_lost(losing):
    losing.errors = 1
    timed = timed_of(Doubling(), {"mine": losing.bind, **EAGER})
    assert "illegal memory access" in timed["mine"].failed and timed["eager"].failed is None
