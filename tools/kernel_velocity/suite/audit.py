"""Audit a round: time calls on inputs that no call has seen, with poisoned outputs, and check the results.

A kernel may keep what it computed (a memo by contents or by address, a cached plan), skip its work while its output is
still right, leave it to a thread that nobody waits for, or know a benchmark's inputs by heart. So after the samples the
inputs are drawn anew from a secret seed, in place, the outputs are poisoned, one call is timed, and its outputs are
checked as soon as the clock has stopped.

Such a call is compared with the samples. Where it is much slower, calls in pairs decide: on the inputs of the samples
with the outputs that belong to them, and on inputs drawn anew with poisoned outputs. Both kinds follow the same copies,
and differ in nothing but what the kernel can know. An honest kernel takes the same time for both.

Note: the samples themselves are taken on the fixed inputs of a case. Ten draws of 1M normal values differed by .4%
(s.d.) in quantize_int8's time, by how many blocks hold a tie, and the fixed draw is .7% faster than their mean: other
inputs in each round would have added noise, and moved the history.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any, NamedTuple

from kernel_velocity.engine.timers import Call, Timer
from kernel_velocity.problem.implementations import Bound
from kernel_velocity.problem.problem import Inputs, as_tensor, drawn_anew, outputs_of
from kernel_velocity.suite.alone import AloneCalls, ApartError, AuditError, drawn
from kernel_velocity.suite.memory import Glance, checksums, layout_of, tensors_of

# Times the estimate, and s: a call on drawn inputs that takes longer is looked at in pairs. What the drawing displaces
# from the caches slows an honest call down as much, so a pair decides, and this only what it costs.
SUSPECT, SLACK = 1.5, 2e-6
TRIES = 3  # such calls in a row before pairs are taken: one that is interrupted says nothing
PAIRS, FEWEST_PAIRS = 9, 5
AGAIN = 3  # calls of a pair on what they know, of which the fastest counts: a kernel may skip every second call
TURNS = 2  # times that all pairs must fail before a kernel is refused
PAIRS_SECONDS = 20.0  # s that the pairs may take; asv ends a round after 120
# Ratio of a pair. Of nine pairs eight must exceed it (of fewer all), twice: where two of five pairs of an honest kernel
# do on a busy machine, that makes (9 * .4^8)^2 = 3e-5 of false alarms among the rounds that come so far.
GAIN = 1.3
# Work may depend on contents (an early exit), and the fixed inputs may be lucky. Where the logarithms of the times of
# nine draws are normal, the fixed inputs are some 3.7 standard deviations below their mean in what this refuses.
LUCKY_SPREADS = 1.5
READINGS = 4  # of the outputs: the first may have to wait for them, the fastest is what reading takes
# A processor learns the branches of contents that repeat: a kernel of random branches was 5.9 times as fast on contents
# that it had seen once, by 21 us at most, and what it learns ends at some ten thousand branches. So below a margin over
# both a pair only raises a flag. A GPU does not predict.
LEARNED = {"cpu": 1e-4, "cuda": 0.0}  # s
UNLEARNED = 10.0  # times
# Times the estimate, and s: calls by themselves, on inputs and outputs that they know, may take both. Of honest
# kernels those of random branches took most, 4.6 times the samples' time (26 us), and streams in a cache 1.5 times. On
# CPUs none took more than 8 us beyond ALONE times (86 kernels, busy machine). On GPUs that was not measured. A kernel
# that keeps its results passes if computing them takes no longer than this.
ALONE, ALONE_SLACK = 5.0, {"cpu": 5e-5, "cuda": 2e-4}
# Bytes of outputs from which on a call that allocates them may get other memory by itself than in a row, with page
# faults: from here on glibc maps it. An honest one of 512 kB took 1.3 times as long by itself. There ALONE holds, too.
MAPPED = 128 << 10
LONG = 1e-3  # s: such calls are made after pauses only where the one on drawn inputs is not near, for their cost
NEAR, NEAR_SLACK = 1.1, 2e-6
PLAIN = (("torch", "Tensor"), ("torch.nn.parameter", "Parameter"), ("numpy", "ndarray"))
IDLE, IDLE_MOST = 1e-3, 1.0  # s: threads of OpenMP wait actively for up to .2 s


Looks = tuple[Glance, list[Any]]  # where outputs were looked at, and what was there


class Contents(NamedTuple):
    """What inputs shall hold: values of equal kind, and the sums over all of their bits."""

    values: Sequence[Any]
    sums: list[Any]


class FreshInputs:
    """The inputs of a case, whose contents are drawn anew in place, so that a bound call reads them.

    Args:
        inputs: tensors and scalars that implementations are bound to.
        create: makes inputs of the same kind, with seeds of `Problem.get_seed`.
        environ: KV_SEED repeats the draws of a process. Without it they are secret.
    """

    def __init__(self, inputs: Inputs, create: Callable[[], Inputs], environ: Mapping[str, str]) -> None:
        self._inputs, self._create = inputs, create
        self.begin(environ)
        self._key = secrets.randbits(63)  # of checksums
        self._count = 0
        self._fixed = self._written = self._sums(inputs)
        self._layout = layout_of(inputs)
        self.can_renew = True  # until a draw gives the same values, or other shapes or scalars

    def begin(self, environ: Mapping[str, str]) -> None:
        """Have the draws of this process begin, which no other process knows."""
        self._seed = environ.get("KV_SEED") or secrets.token_hex(4)

    def __str__(self) -> str:
        return f" (inputs drawn with KV_SEED={self._seed})" if self._count else ""

    @property
    def nbytes(self) -> int:
        """The bytes of all inputs."""
        return sum(tensor.nbytes for tensor in tensors_of(self._inputs))

    def _sums(self, values: Sequence[Any]) -> list[Any]:
        return checksums(values, self._key)

    def draw(self) -> Contents:
        """Return new contents for the inputs. Where that is impossible, the inputs themselves."""
        if self.can_renew:
            self._count += 1
            with drawn_anew(f"{self._seed}/{self._count}"):
                drawn = self._create()
            sums = self._sums(drawn)
            self.can_renew = _fit(self._inputs, drawn) and self._written != sums
        return Contents(drawn, sums) if self.can_renew else Contents(self._inputs, self._written)

    def write(self, contents: Contents) -> None:
        """Overwrite the inputs, in the time of the copies: a kernel may know how long ago its last call was."""
        for tensor, content in zip(tensors_of(self._inputs), tensors_of(contents.values), strict=True):
            tensor.copy_(content)
        self._written = contents.sums

    def touches(self) -> list[Call]:
        """Return calls that write a drawn element of every input as it is: who watches inputs for writes sees one."""
        shapes = [(tensor, tensor.shape) for tensor in tensors_of(self._inputs) if tensor.ndim and tensor.numel()]
        cells = [tensor[tuple(int(drawn() * size) for size in shape)] for tensor, shape in shapes]
        return [partial(cell.copy_, cell.clone()) for cell in cells]

    def fixed(self) -> Contents:
        """Return what the inputs held at first. Where `create` cannot make that again, a copy of what they hold now."""
        made = self._create()
        if _fit(self._inputs, made) and self._fixed == self._sums(made):
            return Contents(made, self._fixed)
        return Contents([tensor.clone() for tensor in tensors_of(self._inputs)], self._written)

    def check(self) -> None:
        """Raise AuditError if an input is not what was written: sums over all of it are compared."""
        if self._written != self._sums(self._inputs) or self._layout != layout_of(self._inputs):
            raise AuditError("it changed its inputs")


def _fit(inputs: Inputs, drawn: Inputs) -> bool:
    """Return whether drawn values can take the places of inputs: equal numbers, and tensors of equal kind.

    A tensor without dimensions is a number: a call may have been bound to its value.
    """
    if len(inputs) != len(drawn):
        return False
    for value, new in zip(map(as_tensor, inputs), map(as_tensor, drawn), strict=True):
        if not hasattr(value, "data_ptr") or value.ndim == 0:
            if type(value) is not type(new) or bool(value != new):
                return False
        elif not hasattr(new, "data_ptr") or (value.shape, value.dtype) != (new.shape, new.dtype):
            return False
        elif any(stride == 0 for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1):
            return False  # expanded: elements share their memory
    return True


def _equal(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Return whether tensors are equal bit by bit."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    pairs = zip(before, now, strict=True)
    return all(a.shape == b.shape and torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in pairs)


def audit(
    bound: Bound,
    fresh: FreshInputs,
    check: Callable[[], object],
    *,
    timer: Timer,
    estimate: float,
    overhead: float,
    device: str,
    alone: AloneCalls,
    threads: int = 1,
    allocates: bool = False,
) -> tuple[str, ...]:
    """Call on inputs that no call has seen, check the outputs, and compare the time with the estimate of a round.

    Args:
        bound: the call.
        fresh: its inputs.
        check: raises where the outputs of the last call are wrong. It is called as soon as the clock has stopped.
        timer: that the samples were taken with. It times one call.
        estimate: s per call of the samples.
        overhead: s that an empty call reads as.
        device: "cpu" or "cuda".
        alone: calls by themselves. Where they ended in an ApartError, its `row` is measured again.
        threads: of the CPU that a call uses.
        allocates: whether each call allocates its outputs.

    Returns: flags of the round: "same_inputs" where the inputs cannot be drawn anew, "known_inputs" where calls are
        faster on what they have seen, but not by more than a processor may have learned.

    Raises:
        ApartError: calls by themselves take longer than in a row.
        AuditError: calls on what it has seen are faster, or the call changed its inputs, or goes on after its return.
    """
    made = sum(output.nbytes for output in tensors_of(outputs_of(bound.output())))
    is_mapped = allocates and made >= MAPPED
    is_sharp = device == "cpu" and threads == 1 and not is_mapped
    now = alone.row = max(estimate, alone.row)
    near = overhead + (NEAR * now + NEAR_SLACK if is_sharp else ALONE * now + ALONE_SLACK[device])

    def check_alone() -> None:
        # touches write what inputs hold now
        alone.check(bound.call, fresh.touches(), timer, near, fresh.nbytes + made)

    if now < LONG:
        check_alone()
    counts = [output.numel() for output in tensors_of(outputs_of(bound.output()))]
    for number in range(TRIES):
        fresh.write(fresh.draw())
        bound.poison()
        seconds, looks = _call(bound, timer, counts)
        _check(bound, fresh, check, looks)
        if number == 0 and now >= LONG and seconds > near:
            check_alone()
        if not fresh.can_renew:
            return ("same_inputs",)
        if seconds <= SUSPECT * estimate + SLACK + overhead:
            return ()
    fixed, is_known = fresh.fixed(), False
    most_alone = ALONE * now + ALONE_SLACK[device]
    for _ in range(TURNS):
        pairs = list[tuple[float, float]]()
        wanted = int(min(PAIRS, max(FEWEST_PAIRS, PAIRS_SECONDS / (TURNS * (AGAIN + 2) * seconds))))
        enough = 2 if wanted == PAIRS else 1  # so many pairs that are alike clear a kernel: no more are taken
        while len(pairs) < wanted:
            pairs.append(_pair(bound, fresh, fixed, check, timer))
            repeated = min(old for old, _ in pairs) - overhead
            is_known = sum(new <= GAIN * old for old, new in pairs) < enough
            if not is_known and repeated <= most_alone:
                return ()
        old, new = (median(times) for times in zip(*pairs, strict=True))
        is_known &= _is_apart(old, [new for _, new in pairs])
        keeps = is_known and (new - old > LEARNED[device] or new / old > UNLEARNED)
        if not keeps and repeated <= most_alone:
            return ("known_inputs",) if is_known else ()
    if keeps:
        raise AuditError(f"{new / old:.3g} times as fast on inputs that it has seen: {_us(old)}, on others {_us(new)}")
    raise ApartError(
        f"{repeated / now:.3g} times as fast when called again at once: {_us(now)} in a row, {_us(repeated)} by "
        "itself until its outputs can be read"
    )


def check_kinds(outputs: Sequence[Any]) -> None:
    """Raise AuditError for an output that is no plain tensor or array: it may compute when it is read."""
    for output in outputs:
        kind = type(output)
        if (kind.__module__, kind.__name__) not in PLAIN:
            raise AuditError(f"it returned {kind.__module__}.{kind.__name__}, wanted torch.Tensor or numpy.ndarray")


def wait_for_threads() -> None:
    """Wait until no thread of this process computes any more, at most IDLE_MOST s: calls may have left work to some."""
    deadline = perf_counter() + IDLE_MOST
    while perf_counter() < deadline:
        began, used = perf_counter(), process_time()
        sleep(IDLE)
        if process_time() - used < (perf_counter() - began) / 2:
            return


def check_finished(row: float, waits: Sequence[float]) -> None:
    """Raise ApartError if a device works on for long after a call's last event.

    Args:
        row: the most s per call by the device's events so far.
        waits: s that a caller waits beyond them, of each turn, where that is known. A busy host makes a caller wait,
            too, so the least counts.
    """
    if waits and min(waits) > ALONE * row + ALONE_SLACK["cuda"]:
        raise ApartError(
            f"the device works on for {_us(min(waits))} after a call of {_us(row)}: wait for other streams"
        )


def _is_apart(old: float, new: Sequence[float]) -> bool:
    """Return whether a time lies below others by LUCKY_SPREADS times what their median lies above the least of them."""
    least, middle = log(min(new)), median(map(log, new))
    return least - log(old) > LUCKY_SPREADS * (middle - least)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us"


def _call(bound: Bound, timer: Timer, counts: Sequence[int]) -> tuple[float, Looks]:
    """Make one call. Return its s until its outputs can be read, and what a glance saw as soon as it returned."""
    glance = Glance(counts)
    (seconds,) = timer.samples(bound.call, 1, 1)
    readings, glances = [], []
    for _ in range(READINGS):
        began = perf_counter()
        glances.append(glance.at(outputs_of(bound.output())))
        readings.append(perf_counter() - began)
    return seconds + readings[0] - min(readings), (glance, glances[0])


def _check(bound: Bound, fresh: FreshInputs, check: Callable[[], object], looks: Looks) -> None:
    """Check outputs and inputs after a call, and that the outputs are still what they were when it returned."""
    check()
    fresh.check()
    glance, before = looks
    if not _equal(before, glance.at(outputs_of(bound.output()))):
        raise AuditError("its outputs still changed after it had returned")


def _pair(
    bound: Bound, fresh: FreshInputs, fixed: Contents, check: Callable[[], object], timer: Timer
) -> tuple[float, float]:
    """Return the least s of AGAIN calls on what they know, and the s of one on inputs drawn anew, outputs poisoned.

    The same copies precede all of them, and a call on what is known.
    """
    new = fresh.draw()
    fresh.write(fixed)
    bound.poison()
    poisoned = [
        output.clone() for output in tensors_of(outputs_of(bound.output()))
    ]  # none where calls allocate outputs
    bound.call()
    outputs = tensors_of(outputs_of(bound.output()))
    counts = [output.numel() for output in outputs]
    right = [output.clone() for output in outputs]
    times = []
    for contents, results in (*[(fixed, right)] * AGAIN, (new, poisoned)):
        fresh.write(contents)
        bound.poison()
        for output, result in zip(outputs, results if poisoned else (), strict=bool(poisoned)):
            output.copy_(result)
        seconds, looks = _call(bound, timer, counts)
        times.append(seconds)
    _check(bound, fresh, check, looks)
    return min(times[:-1]), times[-1]
