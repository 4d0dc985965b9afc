"""One round: warm up, choose the batch, sample until the rule stops, reduce to one robust estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from kernel_velocity.engine import statistics
from kernel_velocity.engine.gpu import CLOCK_DRIFT
from kernel_velocity.engine.quiet import ENOUGH, Gate
from kernel_velocity.engine.reported import page_faults
from kernel_velocity.engine.stopping import Reason, Stop, StoppingRule, without_burn_in
from kernel_velocity.engine.timers import Call, Timer

# 8 rounds x 1 estimate: .3% false alarms by asv's own test with 42 to 98% power at +3%; 2 x 5 samples: 18 to 24%.
ROUNDS = 8
REFUSED_ROUNDS = 6  # asv's test cannot reach its own threshold with six values a side

WARM_UP = 0.05  # s of busy time before the first sample: caches, branch predictors and clocks settle
# An implementation that allocates its output settles only when the allocator has met all its sizes: at 10M elements
# up to 10 calls with faults, 16 ms reading as 50. So the warm-up lasts until three batches in a row had next to none.
WARM_UP_MOST = 0.5  # s
SETTLED = 3  # batches in a row
# Page faults per second. A forked process takes about 20 for a while, of 2 us, as it copies what it shares with its
# parent; an allocator at work 300, of up to 1 ms (huge pages).
FAULTING = 100.0
TICK_FACTOR = 200  # a batch lasts at least 200 clock ticks, so that none moves the sample by more than .5%
QUANTISED = 0.005  # flag: one tick is more than this share of a sample
SHORT = 5  # flag: a call takes less than so many times what an empty one does: most of it may be the launch
# s of sampling, whatever the rule still wants (`fixed` with 100 calls of 3 s): a process past asv's timeout of 120 s is
# killed, and all its samples are lost. The rest is for set-up, verification and compiling.
SAMPLING_MOST = 80.0
CONSTANT = 16  # flag: so many samples, or more, are all equal: their clock is too coarse to show any spread, or broken


@dataclass(frozen=True, kw_only=True)
class RoundResult:
    """One round's samples, reduced. Times in seconds. Shares and half-width relative. None where unknown."""

    estimate: float  # 10%-per-side trimmed mean of the samples after the burn-in
    n: int
    batch: int
    warmup: float
    spent: float  # by the host's clock; on a GPU that is more than the samples add up to
    stop: str
    cv: float | None
    half_width: float | None
    autocorrelation: float | None
    drift: float | None  # of the last third of the samples against the first
    tick: float
    overhead: float
    core_gauge: float | None  # what the gauges read beside the samples; None without a gate
    memory_gauge: float | None
    control_gauge: float | None
    lost: float | None  # s of waiting for a quiet core
    clocks: tuple[float, ...]  # of the device beside the samples, Hz; empty where the timer reads none
    flags: tuple[str, ...]


def warm_up(call: Call, timer: Timer) -> tuple[float, float]:
    """Call until WARM_UP seconds are spent and memory has settled. Return (seconds per call in the end, seconds)."""
    begin, batch, settled = perf_counter(), 1, 0
    while True:
        faults = page_faults()
        looked = perf_counter()
        (per_call,) = timer.samples(call, batch, 1)
        quiet = page_faults() - faults <= max(1.0, FAULTING * (perf_counter() - looked))
        settled = settled + 1 if quiet else 0
        spent = perf_counter() - begin
        if spent >= WARM_UP_MOST or (spent >= WARM_UP and settled >= SETTLED):
            return max(per_call, 1e-9), spent
        if spent < WARM_UP / 2:
            batch = min(2 * batch, timer.batch_limit)


def batch_for(per_call: float, timer: Timer, tick: float, overhead: float) -> int:
    """Return how many calls of about so many s make a sample that a timer resolves, by its `tick` and `overhead`, s."""
    wanted = max(timer.empty_calls * overhead, TICK_FACTOR * tick)
    return int(min(max(1, -(-wanted // per_call)), timer.batch_limit))


def calibrate(call: Call, timer: Timer) -> tuple[float, int]:
    """Warm a call up. Return the s that it takes, and how many of it make a sample."""
    per_call, _ = warm_up(call, timer)
    return per_call, batch_for(per_call, timer, timer.tick(), timer.overhead())


def measure(
    call: Call,
    timer: Timer,
    rule: StoppingRule,
    look: Callable[[], object] = lambda: None,
    gate: Gate | None = None,
) -> RoundResult:
    """Measure one round of `call`. `look` is called when it is warm, and again right after its last sample.

    With a gate, only samples that it lets through reach the rule. When its patience ends, the samples so far make the
    round if they are ENOUGH. Else all samples count from there on, and the round is flagged.

    Raises:
        ValueError: the timer returned a time that is zero, negative or not finite.
    """
    per_call, warmed = warm_up(call, timer)
    tick, overhead = timer.tick(), timer.overhead()  # of a device that is awake
    batch = batch_for(per_call, timer, tick, overhead)
    timer.restart()  # what went wrong while warming up is in no sample
    look()
    rule.start()
    faults, spent, reason = 0, 0.0, None
    began = perf_counter()
    waiting, disturbed = gate is not None and not gate.is_open, gate is not None and gate.gives_up
    take = _take if gate is None else gate.take
    while reason is None:
        decision = rule.decide()
        if isinstance(decision, Stop):
            reason = decision.reason
            break
        left = SAMPLING_MOST - (perf_counter() - began)
        if left <= 0 and rule.samples:
            reason = Reason.TIMEOUT
            break
        affordable = left / (per_call * batch)  # not a number where the timer's times are none: it raises below
        wanted = max(1, int(affordable)) if affordable < decision.n else decision.n
        before = page_faults()
        portion, lasted = take(timer, call, batch, wanted, per_call * batch)
        faults += page_faults() - before  # of the calls alone: the rule's own arithmetic has some, too
        spent += lasted
        rule.add(portion, lasted if timer.by_wall else sum(portion) * batch)
        if waiting and gate is not None and gate.is_open:
            waiting = False
            disturbed = len(rule.samples) < ENOUGH
            reason = None if disturbed else Reason.CONTENDED
    look()
    samples = without_burn_in(rule.samples)
    estimate = statistics.trimmed_mean(samples)
    clocks = timer.clocks()
    raised = {
        "quantised": tick > QUANTISED * estimate * batch,
        "faulting": (faults if gate is None else gate.faults) / spent > FAULTING,
        "short": estimate < SHORT * overhead,
        "constant": len(samples) >= CONSTANT and min(samples) == max(samples),
        "contended": disturbed,
        "clock_drift": bool(clocks) and max(clocks) > (1 + CLOCK_DRIFT) * min(clocks),
    }
    core, memory, control = (None, None, None) if gate is None else gate.gauges()
    return RoundResult(
        estimate=estimate,
        n=len(rule.samples),
        batch=batch,
        warmup=warmed,
        spent=spent,
        stop=reason.value,
        cv=statistics.cv(samples),
        half_width=statistics.half_width(samples),
        autocorrelation=statistics.autocorrelation(samples),
        drift=drift(samples),
        tick=tick,
        overhead=overhead,
        core_gauge=core,
        memory_gauge=memory,
        control_gauge=control,
        lost=None if gate is None else gate.lost,
        clocks=tuple(clocks),
        flags=tuple(sorted(timer.flags | {flag for flag, is_raised in raised.items() if is_raised})),
    )


def _take(timer: Timer, call: Call, batch: int, n: int, _: float) -> tuple[list[float], float]:
    """Return n samples, and the s that taking them took: `Gate.take` without a gate."""
    began = perf_counter()
    samples = timer.samples(call, batch, n)
    return samples, perf_counter() - began


def drift(samples: Sequence[float]) -> float | None:
    """Return how much slower the last third of the samples was than the first, relative to it. None below six.

    Both are trimmed means, so that one spike is no drift.
    """
    third = len(samples) // 3
    if third < 2:
        return None
    first, last = (statistics.trimmed_mean(part) for part in (samples[:third], samples[-third:]))
    return last / first - 1
