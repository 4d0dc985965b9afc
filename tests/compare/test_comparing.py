"""The engine of the live comparison: verified before and after, interleaved, refused before allocated."""

from functools import partial

import pytest

from kernel_velocity.compare import rounds as compare_rounds
from kernel_velocity.compare import subject
from kernel_velocity.compare.api import compare, time_function
from kernel_velocity.compare.case import order
from kernel_velocity.compare.settings import Settings
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import reported
from kernel_velocity.harness.stopping import FixedCount
from kernel_velocity.roofline.model import Level, Roofs
from tests.compare.live_comparisons import ELEMENTS, Doubling, DoublingBytes, returning, writing

torch = pytest.importorskip("torch", reason="implementations compute with torch tensors")

QUICK = Settings(rounds=2, rule=partial(FixedCount, n=5), warmups=1)
EAGER = {"eager": returning(lambda x: x * 2)}
ROOFS = Roofs(
    levels=(Level(name="L2", size=1 << 20, bandwidth=1e15), Level(name="DRAM", size=None, bandwidth=1e14)),
    peaks={"float32": 1e15},
)


def one(problem, bind, settings=QUICK):
    """Return what became of one implementation on the small case."""
    (compared,) = compare(problem, {**EAGER, "mine": bind}, cases="small", settings=settings).compared
    assert compared.timed[0].failed is None
    return compared.timed[1]


def set_at(index, value):
    def spoil(out):
        out.view(-1)[index] = value

    return spoil


def add_at(index, value):
    def spoil(out):
        out.view(-1)[index] += value

    return spoil


def short_of_the_last(problem, case, inputs):
    """Bind a kernel that leaves the last element as it was."""
    bound = writing()(problem, case, inputs)
    out = bound.output()

    def call():
        torch.mul(inputs[0][:-1], 2, out=out[:-1])

    return type(bound)(call, bound.output, bound.poison)


def test_what_is_right_is_timed_in_every_round():
    found = one(Doubling(), writing())
    assert (found.failed, found.missing) == (None, None)
    assert [len(samples) for samples in found.rounds] == [5, 5]
    assert len(found.estimates) == 2 and all(0 < each < 1 for each in found.estimates)
    assert found.stops == ("complete", "complete")
    (accuracy,) = found.accuracy
    assert accuracy.right and accuracy.output == "out" and accuracy.details["max_absolute_error"] == 0


def test_rounds_of_the_history_are_the_default(monkeypatch):
    monkeypatch.setenv("KV_PATIENCE", "0")
    settings = Settings(rounds=1, rule=partial(FixedCount, n=10))
    found = one(Doubling(), writing(), settings)
    assert [len(samples) for samples in found.rounds] == [8]  # without the burn-in
    assert found.stops == ("complete",)


@pytest.mark.parametrize(
    ("problem", "bind", "said"),
    [
        (Doubling, writing(set_at(317, float("nan"))), "317"),
        (Doubling, writing(set_at(3, float("inf"))), "3"),
        (DoublingBytes, writing(add_at(41, 1)), "41"),
        (Doubling, returning(lambda x: x[:-1] * 2), f"({ELEMENTS - 1},)"),
        (Doubling, returning(lambda x: (x * 2).reshape(2, -1)), "(2, 500)"),
        (Doubling, returning(lambda x: None), "wrong"),
        (Doubling, short_of_the_last, f"{ELEMENTS - 1}"),
        (DoublingBytes, short_of_the_last, f"{ELEMENTS - 1}"),
    ],
    ids=["nan", "infinity", "off by one", "short", "reshaped", "nothing", "last float", "last int8"],
)
def test_what_is_wrong_is_named_and_not_timed(problem, bind, said):
    found = one(problem(), bind)
    assert found.failed is not None and "out is wrong" in found.failed and said in found.failed
    assert "before timing" in found.failed
    assert found.rounds == () and found.roofline is None
    assert not found.accuracy[0].right


def test_a_kernel_that_changes_its_inputs_is_named_and_harms_no_other():
    def greedy(problem, case, inputs):
        bound = writing()(problem, case, inputs)
        return type(bound)(lambda: (bound.call(), inputs[0].add_(1)), bound.output, bound.poison)

    found = compare(Doubling(), {"greedy": greedy, **EAGER}, cases="small", settings=QUICK).compared[0].timed
    assert found[0].failed == "it changed its inputs: x (before timing)"
    assert found[1].failed is None and len(found[1].rounds) == 2


class Unseeded(Doubling):
    """Its inputs are others each time, and one of them is NaN."""

    def create(self, name, n):
        values = torch.rand(n)
        values[7] = float("nan")
        return (values,)


@pytest.mark.parametrize("change", [lambda x: x.mul_(2), lambda x: x.copy_(x.flip(0)), lambda x: x.resize_(3)])
def test_inputs_are_put_back_whatever_became_of_them(change):
    def greedy(problem, case, inputs):
        bound = writing()(problem, case, inputs)
        return type(bound)(lambda: (bound.call(), change(inputs[0])), bound.output, bound.poison)

    found = compare(Unseeded(), {"greedy": greedy, "good": writing()}, cases="small", settings=QUICK)
    bad, good = found.compared[0].timed
    assert bad.failed == "it changed its inputs: x (before timing)"
    assert good.failed is None and good.accuracy[0].details.get("nan", 0) == 0


@pytest.mark.parametrize("late_first", [True, False])
def test_who_changes_inputs_while_timed_is_named_and_nobody_else(late_first):
    def late(problem, case, inputs):
        bound, calls = writing()(problem, case, inputs), []

        def call():
            bound.call()
            calls.append(1)
            if len(calls) == 4:
                inputs[0].add_(1)

        return type(bound)(call, bound.output, bound.poison)

    both = {"late": late, "good": writing()}
    chosen = both if late_first else dict(reversed(both.items()))
    timed = {
        each.implementation: each
        for each in compare(Doubling(), chosen, cases="small", settings=QUICK).compared[0].timed
    }
    assert timed["late"].failed == "it changed its inputs: x (while timed)"
    assert timed["good"].failed is None and timed["good"].accuracy[0].right


def test_a_reference_that_works_in_place_is_refused():
    class InPlace(Doubling):
        def reference_solution(self, *inputs):
            return inputs[0].mul_(2)

    with pytest.raises(UsageError, match=r"its reference changes its inputs \(x\)"):
        compare(InPlace(), {"mine": writing()}, cases="small", settings=QUICK)


@pytest.mark.parametrize("error", [SystemExit(0), NotImplementedError("no more")])
def test_who_gives_up_while_timed_has_failed(error):
    def tired(problem, case, inputs):
        bound, calls = writing()(problem, case, inputs), []

        def call():
            bound.call()
            calls.append(1)
            if len(calls) > 3:
                raise error

        return type(bound)(call, bound.output, bound.poison)

    found = one(Doubling(), tired)
    assert found.missing is None
    assert found.failed.startswith(f"raised {type(error).__name__}")


def test_a_problem_that_lets_nan_pass_does_not_decide_on_it():
    class Lax(Doubling):
        def verify_result(self, expected, actual):
            return True, {}

    assert "nan" in one(Lax(), writing(set_at(5, float("nan")))).failed
    assert one(Lax(), writing(add_at(5, 1.0))).failed is None  # what is finite is the problem's to judge


def test_a_problem_that_refuses_what_tolerances_allow_decides():
    class Strict(Doubling):
        def verify_result(self, expected, actual):
            return bool((expected == actual).all()), {"mismatches": int((expected != actual).sum())}

    found = one(Strict(), writing(add_at(49, 1e-5)))  # 98 and a step of float32 (7.6e-6)
    assert "mismatches 1" in found.failed


def test_a_kernel_that_is_right_only_once_is_wrong():
    calls = []

    def spoil(out):
        calls.append(1)
        if len(calls) > 8:
            out[-1] = 0

    found = one(Doubling(), writing(spoil))
    assert "after timing" in found.failed and found.roofline is None


def test_what_an_earlier_call_wrote_does_not_count():
    def lazy(problem, case, inputs):
        bound = writing()(problem, case, inputs)
        todo = [bound.call]
        return type(bound)(lambda: todo and todo.pop()(), bound.output, bound.poison)

    found = one(Doubling(), lazy)
    assert "after timing" in found.failed and f"{ELEMENTS} of {ELEMENTS}" in found.failed


def test_a_tolerance_decides_in_place_of_the_problem():
    from kernel_velocity.harness.accuracy import parse_tolerance

    lax = Settings(rounds=1, rule=partial(FixedCount, n=2), warmups=0, tolerance=parse_tolerance("1"))
    assert one(DoublingBytes(), writing(add_at(41, 1)), lax).failed is None
    assert one(DoublingBytes(), writing(add_at(41, 2)), lax).failed is not None


def test_what_raises_costs_the_others_nothing():
    def refuse(problem, case, inputs):
        raise NotImplementedError("needs a CUDA device")

    def crash(problem, case, inputs):
        raise ZeroDivisionError("by zero")

    (compared,) = compare(Doubling(), {"a": refuse, "b": crash, **EAGER}, cases="small", settings=QUICK).compared
    missing, failed, eager = compared.timed
    assert (missing.missing, missing.failed) == ("needs a CUDA device", None)
    assert failed.failed == "raised ZeroDivisionError: by zero"
    assert len(eager.rounds) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_every_implementation_is_as_often_the_first(count):
    names = list(range(count))
    rounds = [order(names, number) for number in range(2 * count)]
    assert all(sorted(each) == names for each in rounds)
    assert sorted(each[0] for each in rounds) == sorted(2 * names)
    assert rounds[:count] == [each[::-1] for each in rounds[count:]]
    assert order([], 3) == []


def test_implementations_take_turns(monkeypatch):
    taken = []

    def take(call, rule, place, warmups):
        call()
        return compare_rounds.Taken(samples=(1e-6,), estimate=1e-6, stop="complete", flags=(), ended=0.0)

    monkeypatch.setattr(subject, "take_round", take)

    def named(name):
        return returning(lambda x: (taken.append(name), x * 2)[1])

    settings = Settings(rounds=4, rule=partial(FixedCount, n=1), warmups=0)
    compare(Doubling(), {name: named(name) for name in "abc"}, cases="small", settings=settings)
    assert "".join(taken[3:-3]) == "abcbcacabcba"  # between the two verifications


def test_progress_goes_from_nothing_to_all():
    told = []
    compare(Doubling(), EAGER, settings=QUICK, progress=lambda what, done: told.append((what, done)))
    shares = [done for _, done in told]
    assert shares == sorted(shares) and shares[0] == 0 and 0.5 < shares[-1] < 1
    assert any("float32-large round 2/2 eager" in what for what, _ in told)


def test_a_case_says_what_it_is():
    found = compare(Doubling(), EAGER, cases="large", settings=QUICK, roofs=ROOFS)
    (compared,) = found.compared
    assert (compared.problem, compared.case, compared.device) == ("doubling", "float32-large", "cpu")
    assert (compared.dtype, compared.dims, compared.elements) == ("float32", (2000,), 2000)
    assert (compared.tensor_bytes, compared.flops, compared.bytes, compared.memory) == (8000, 2000, 16000, "L2")
    assert compared.timed[0].roofline.bandwidth == pytest.approx(16000 / sorted(compared.timed[0].estimates)[0], rel=1)
    assert found.settings["reference"] == "eager" and found.settings["rounds"] == "2"
    assert found.environment["torch"] == torch.__version__
    assert found.took > 0


def test_what_computes_in_int8_has_the_peak_in_int8_over_it_whatever_it_writes():
    class Widening(DoublingBytes):
        """x (n,) int8 -> out = 2 x as int32, as products of int8 are."""

        def reference_solution(self, *inputs):
            return inputs[0].int() * 2

    peaks = Roofs(levels=(), peaks={"int8": 1e3, "int32": 1e12})
    found = compare(Widening(), {"eager": returning(lambda x: x.int() * 2)}, cases="large", settings=QUICK, roofs=peaks)
    (compared,) = found.compared
    assert compared.dtype == "int8"
    assert compared.timed[0].roofline.attainable == pytest.approx(1e3)


def test_without_roofs_there_is_no_roofline():
    (compared,) = compare(Doubling(), EAGER, cases="small", settings=QUICK).compared
    assert compared.timed[0].roofline is None


def test_a_call_that_allocates_is_the_whole_function():
    from kernel_velocity.stats.speedup import timing

    (compared,) = compare(Doubling(), {**EAGER, "mine": writing()}, cases="small", settings=QUICK).compared
    eager, mine = compared.timed
    assert eager.function == timing(eager.estimates).seconds
    assert mine.function is None


def test_the_native_function_is_timed_with_its_allocation(monkeypatch):
    import sys
    import types

    module = types.ModuleType("kernels.doubling")
    called = []
    module.doubling = lambda x: (called.append(1), x * 2)[1]
    monkeypatch.setitem(sys.modules, "kernels.doubling", module)

    class Native(Doubling):
        kernel = "doubling"

    (compared,) = compare(Native(), {"native": writing()}, cases="small", settings=QUICK).compared
    assert compared.timed[0].function > 0
    assert len(called) > 2 * 3  # in each of the rounds


def test_sizes_that_do_not_fit_are_refused_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(reported, "free_memory", lambda device: 3 * 8 * 2 * ELEMENTS)  # the large one needs all of it
    problem = Doubling()
    with pytest.raises(UsageError, match=r"doubling float32-large: needs about .* free on cpu"):
        compare(problem, EAGER, settings=QUICK)
    assert problem.made == []
    assert len(compare(problem, EAGER, cases="small", settings=QUICK).compared) == 1


def test_a_problem_that_raises_is_one_line():
    class Broken(Doubling):
        def reference_solution(self, *inputs):
            raise AssertionError("Torch not compiled with CUDA enabled")

    with pytest.raises(UsageError, match="doubling float32-small: its reference raised AssertionError: Torch not comp"):
        compare(Broken(), EAGER, settings=QUICK)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes")])
def test_memory_that_runs_out_all_the_same_is_one_line(error):
    def bind(problem, case, inputs):
        raise error

    with pytest.raises(UsageError, match="doubling float32-small: memory ran out"):
        compare(Doubling(), {"big": bind}, cases="small", settings=QUICK)


def test_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="--device cuda: PyTorch sees no CUDA device"):
        compare(Doubling("cuda"), EAGER, settings=QUICK)


def test_an_unknown_reference():
    with pytest.raises(UsageError, match="--reference 'fast': not among the implementations compared: eager"):
        compare(Doubling(), EAGER, settings=Settings(reference="fast"))


def test_on_cuda_events_time_rounds_and_functions_are_waited_for(monkeypatch):
    from tests.harness import pretend_cuda

    synchronised = pretend_cuda.plant(monkeypatch, torch)
    monkeypatch.setattr(compare_rounds, "TorchEvents", pretend_cuda.HostEvents)
    (compared,) = compare(Doubling("cuda"), EAGER, cases="small", settings=QUICK).compared
    (eager,) = compared.timed
    assert (compared.device, eager.failed, len(eager.rounds)) == ("cuda", None, 2)
    assert eager.function is not None and eager.power == ()
    assert synchronised


def test_one_function_is_timed_with_an_interval(monkeypatch):
    monkeypatch.setenv("KV_PATIENCE", "0")
    values = list(range(2000))
    found = time_function(lambda: sum(values), rule="fixed", rounds=3)
    assert 1e-6 < found.seconds < 1e-2
    assert found.interval.low <= found.seconds <= found.interval.high
    with pytest.raises(UsageError, match="--rule slow"):
        time_function(lambda: None, rule="slow")
