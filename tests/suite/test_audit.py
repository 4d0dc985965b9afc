"""What was timed is what was checked: kernels that know, keep or postpone their work, and honest ones."""

import math
import threading
import time

import numpy
import pytest

from benchmarks import add_mul_exp, matmul
from kernel_velocity.engine.timers import HostTimer
from kernel_velocity.problem.implementations import Bound
from kernel_velocity.suite import alone as alone_
from kernel_velocity.suite import audit as audit_
from kernel_velocity.suite.alone import AloneCalls, ApartError, AuditError
from kernel_velocity.suite.audit import FreshInputs, audit, check_finished, check_kinds
from kernel_velocity.suite.originals import Originals, ReplacedFunctionError
from tests.suite.measuring import asv_environment, kernel, rounds

torch = pytest.importorskip("torch", reason="benchmarks measure torch tensors")

__all__ = ["asv_environment", "kernel"]

CASE = "float32-512x512x512"


def honest():
    return lambda a, b, out: torch.matmul(a, b, out=out) is None


@pytest.mark.parametrize(
    "replace",
    [
        lambda bench: object.__setattr__(bench._bound, "beside", lambda: ""),
        lambda bench: setattr(bench, "_check", lambda *_: {}),
    ],
)
def test_replaced_part_of_the_benchmark(asv_environment, kernel, replace):
    kernel("matmul", honest())
    bench = matmul.Cpu()
    bench.setup("native", "float32-128x128x128")
    replace(bench)
    with pytest.raises(ReplacedFunctionError, match="a function of the benchmark or of its bound call"):
        bench.measure("matmul.Cpu.time_hot", "native", "float32-128x128x128")
    assert not rounds(asv_environment)


def test_honest_kernel_passes(asv_environment, kernel):
    kernel("matmul", honest())
    bench = matmul.Cpu()
    bench.setup("native", CASE)
    bench.measure("matmul.Cpu.time_hot", "native", CASE)
    (record,) = rounds(asv_environment)
    assert "same_inputs" not in record.flags


def options(estimate):
    """Return the arguments of an audit on a CPU by the host's clock."""
    clock = {"timer": HostTimer(), "estimate": estimate, "overhead": 0.0}
    return {**clock, "device": "cpu", "alone": AloneCalls("cpu")}


def tensors(*shape):
    return FreshInputs((torch.zeros(*shape), 3), lambda: (torch.rand(*shape), 3), {})


class PlannedTimer(HostTimer):
    """A timer whose every sample is what was planned."""

    def __init__(self, seconds):
        super().__init__()
        self._seconds = iter(seconds)

    def samples(self, call, batch, n):
        assert (batch, n) == (1, 1)
        call()
        return [next(self._seconds)]


def audit_planned(*seconds, fresh=None, estimate=9.9e-4, device="cpu", alone=None, row=0.0, **more):
    """Audit a call with planned times of single calls, those `alone` first: as long as in a row, unless given."""
    alone = [estimate] * len(alone_.PAUSES) if alone is None else alone
    seconds = (*alone, *seconds) if max(estimate, row) < audit_.LONG else (seconds[0], *alone, *seconds[1:])
    bound = Bound(lambda: None, lambda: None, lambda: None)
    timer = PlannedTimer(seconds)
    fresh = fresh or tensors(8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_, "READINGS", 1)  # so that no time is added that a busy machine takes
        more |= {"timer": timer, "estimate": estimate, "alone": AloneCalls(device, row)}
        flags = audit(bound, fresh, lambda: None, overhead=0.0, device=device, **more)
    assert not list(timer._seconds)
    return flags


SLOW = [4e-3] * audit_.TRIES


def pairs(*known_and_new):
    """Return the times of pairs."""
    return [second for old, new in known_and_new for second in (*[old] * audit_.AGAIN, new)]


def test_call_as_fast_as_the_samples_is_believed_at_once():
    assert audit_planned(1.4e-3) == ()
    assert audit_planned(9e-3, 9e-3, 1.4e-3) == ()


@pytest.mark.parametrize("ratio", [1.0, 1.29])
def test_slow_after_drawing_is_honest_for_known_inputs_too(ratio):
    assert audit_planned(*SLOW, *pairs(*[(3e-3, ratio * 3e-3)] * 2)) == ()


def test_disturbed_pairs_accuse_nobody():
    observed, disturbed = [(3e-3, 9e-3)], [(9e-3, 9e-3)]
    audit_planned(*SLOW, *pairs(*observed * 7, *disturbed * 2))
    audit_planned(*SLOW, *pairs(*observed * 8, *disturbed), *pairs(*observed * 7, *disturbed * 2))
    with pytest.raises(AuditError, match=r"3 times as fast on inputs that it has seen: 3e\+03 us, on others 9e\+03 us"):
        audit_planned(*SLOW, *pairs(*observed * 8, *disturbed) * 2)


def test_fastest_of_known_calls_counts():
    every_second = [second for _ in range(9) for second in (3e-3, 3e-6, 3e-3, 3e-3)]
    with pytest.raises(AuditError, match="times as fast on inputs that it has seen"):
        audit_planned(*SLOW, *every_second * 2)


def test_what_a_processor_may_have_learned_is_a_flag():
    assert audit_planned(*SLOW, *pairs(*[(2e-5, 1.1e-4)] * 9)) == ("known_inputs",)
    for old, new in ((1e-5, 1.1e-4), (3e-4, 4.1e-4)):
        with pytest.raises(AuditError):
            audit_planned(*SLOW, *pairs(*[(old, new)] * 9) * 2)


def test_lucky_fixed_inputs_are_honest():
    draws = [1e-3 * 2**number for number in range(9)]  # an early exit: work depends on contents
    assert audit_planned(*SLOW, *pairs(*[(5e-4, new) for new in draws])) == ()


def test_slow_calls_are_paired_less_often():
    with pytest.raises(AuditError, match=r"at once: 1e\+06 us in a row, 3e\+07 us by itself"):
        slow = [30.0] * audit_.TRIES
        audit_planned(*slow, *pairs(*[(30.0, 30.0)] * audit_.FEWEST_PAIRS) * 2, estimate=1.0)


def test_short_work_that_is_kept_by_address():
    memo = [1e-4] * audit_.TRIES, pairs(*[(1e-4, 1e-4)] * 9)  # a copy into the inputs makes known ones new, too
    with pytest.raises(AuditError, match=r"at once: 0.45 us in a row, 100 us by itself"):
        audit_planned(*memo[0], *memo[1] * 2, estimate=4.5e-7)
    assert audit_planned(*memo[0], *memo[1][: 2 * (audit_.AGAIN + 1)], estimate=4.5e-7, device="cuda") == ()


def test_call_by_itself_is_near_after_some_pause_of_each_kind():
    near = [1.08e-3] * len(alone_.PAUSES)
    assert audit_planned(1e-3, alone=near) == ()
    assert audit_planned(1e-3, alone=[9e-3, 2e-3, *near]) == ()
    assert audit_planned(2e-6, alone=[2.9e-6] * 3, estimate=1e-6) == ()
    assert audit_planned(5e-4, alone=[1e-3] * 3, estimate=4e-4, row=9.5e-4) == ()  # the machine is slower now
    assert audit_planned(1.05e-2, alone=[], estimate=1e-2) == audit_planned(1.2e-2, estimate=1e-2) == ()  # long


@pytest.mark.parametrize(("alone", "estimate"), [(1.1e-3, 9e-4), (3e-6, 3e-7)])
@pytest.mark.parametrize("kind", range(len(alone_.PAUSES)))
def test_call_that_is_slower_after_every_pause_of_a_kind(alone, estimate, kind):
    times = [*[estimate] * kind, *[alone] * alone_.SINGLES * alone_.FEWEST_BLOCKS]
    with pytest.raises(ApartError, match="times as fast when called again at once"):
        audit_planned(alone=times, estimate=estimate)
    sleeping = [estimate] * kind, [alone] * (len(alone_.PAUSES) - kind)
    assert audit_planned(estimate, alone=[*sleeping[0], *sleeping[1]], estimate=estimate, threads=2) == ()


def test_a_written_element_shows_who_watches_for_writes():
    versions, times, x = [], [], torch.randn(40, 40)

    def memo():
        changed = versions[-1:] != [x._version]
        versions.append(x._version)
        time.sleep(2e-3 * changed)

    fresh = FreshInputs((x,), lambda: (torch.randn(40, 40),), {})
    before = x.clone()
    with pytest.raises(ApartError):
        audit(Bound(memo, lambda: None, lambda: None), fresh, times.append, **options(1e-6))
    assert torch.equal(x, before) and times == []
    fresh.check()


def test_long_call_by_itself_leaves_drawn_inputs_as_they_are():
    times = [1.2e-2, *[1e-2] * len(alone_.PAUSES), 1e-2]  # the call on drawn inputs, calls by themselves
    fresh = tensors(8)
    assert audit_planned(times[0], alone=times[1:4], fresh=fresh, estimate=1e-2) == ()
    fresh.check()


def test_output_that_is_computed_when_it_is_read():
    def output():
        if not computed:
            time.sleep(0.02)
            computed.append(1)
        return torch.zeros(4)

    computed, fresh = [], tensors(8)
    bound = Bound(computed.clear, output, lambda: None)
    with pytest.raises(AuditError, match="by itself until its outputs can be read"):
        audit(bound, fresh, lambda: None, **options(1e-6))


@pytest.mark.parametrize(
    "create",
    [
        lambda: (torch.zeros(4), 3),  # the same
        lambda: (torch.rand(5), 3),
        lambda: (torch.rand(4), 4),
        lambda: (torch.rand(4),),
        lambda: (torch.rand(4, dtype=torch.float64), 3),
    ],
)
def test_inputs_that_cannot_be_drawn_stay(create):
    inputs = (torch.zeros(4), 3)
    fresh = FreshInputs(inputs, create, {})
    fresh.write(fresh.draw())
    assert not fresh.can_renew and not inputs[0].any()
    fresh.check()
    assert audit_planned(9.0, fresh=fresh) == ("same_inputs",)


def test_inputs_of_numpy_are_drawn_in_place():
    inputs = (numpy.zeros(4), numpy.float32(3))
    fresh = FreshInputs(inputs, lambda: (numpy.random.default_rng().random(4), numpy.float32(3)), {})
    fresh.write(fresh.draw())
    assert fresh.can_renew and inputs[0].all()
    inputs[0][1] = 0
    with pytest.raises(AuditError, match="it changed its inputs"):
        fresh.check()


def test_output_that_is_written_after_the_call_returned():
    out, checked, written = torch.zeros(8), threading.Event(), threading.Event()

    def write_late():
        checked.wait()
        out.fill_(2)
        written.set()

    def check():
        checked.set()
        written.wait()

    bound = Bound(lambda: threading.Thread(target=write_late).start(), lambda: out, lambda: out.fill_(math.nan))
    with pytest.raises(AuditError, match="its outputs still changed after it had returned"):
        audit(bound, tensors(8), check, **options(1.0))


def test_expanded_input_stays():
    fresh = FreshInputs((torch.zeros(1).expand(4),), lambda: (torch.rand(4),), {})
    fresh.draw()
    assert not fresh.can_renew


def test_draws_are_secret_and_repeat_with_a_seed():
    def draws(**environ):
        problem = add_mul_exp.Cpu.problem
        inputs = problem.test_case("float32-500k")["create_inputs"]()
        fresh = FreshInputs(inputs, problem.test_case("float32-500k")["create_inputs"], environ)
        return [inputs[0].clone(), *(fresh.draw().values[0] for _ in range(2))]

    first, second = draws(KV_SEED="a"), draws(KV_SEED="a")
    assert all(map(torch.equal, first, second))
    assert torch.equal(first[0], draws()[0])  # the fixed inputs of a case
    others = [*first, *draws()[1:], *draws(KV_SEED="b")[1:]]
    assert len({float(values[0]) for values in others}) == len(others)


def test_output_that_computes_when_it_is_read():
    class Lazy(torch.Tensor):
        pass

    check_kinds([torch.zeros(2), torch.zeros(2).numpy()])
    with pytest.raises(AuditError, match=r"it returned .*Lazy, wanted torch\.Tensor"):
        check_kinds([torch.zeros(2).as_subclass(Lazy)])


@pytest.mark.parametrize("of_class", [False, True])
def test_replaced_method_of_a_problem(of_class):
    class Product(matmul.Matmul):
        pass

    problem, originals = Product(), Originals()
    originals.note(problem)
    originals.check()
    (Product if of_class else problem).verify_result = lambda *_: (True, {})
    with pytest.raises(ReplacedFunctionError, match=r"replaced Product\.verify_result"):
        originals.check()
    assert problem.verify_result is matmul.Matmul.verify_result
    originals.check()


def test_work_on_another_stream_is_unfinished():
    check_finished(20e-6, [250e-6])
    check_finished(20e-6, [])
    check_finished(2e-6, [1e-3, 2e-4])  # the host was busy at first
    with pytest.raises(ApartError, match=r"works on for 1e\+03 us after a call of 2 us"):
        check_finished(2e-6, [1e-3, 2e-3])


def test_replaced_functions_are_named_and_put_back():
    originals, isnan, code = Originals(), torch.Tensor.isnan, check_finished.__code__
    originals.note()
    originals.check()
    torch.Tensor.isnan = torch.Tensor.isinf
    with pytest.raises(ReplacedFunctionError, match=r"replaced torch\.Tensor\.isnan$"):
        originals.check()
    assert torch.Tensor.isnan is isnan
    audit_.audit = None
    with pytest.raises(ReplacedFunctionError, match=r"replaced kernel_velocity\.suite\.audit\.audit$"):
        originals.check()
    assert audit_.audit is audit
    check_finished.__code__ = (lambda row, waits: None).__code__
    with pytest.raises(ReplacedFunctionError, match=r"audit\.check_finished and 1 more$"):  # benchmark imports it
        originals.check()
    assert check_finished.__code__ is code
    originals.check()
