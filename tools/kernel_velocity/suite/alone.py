"""Calls by themselves, after pauses, held against calls in a row: a kernel may skip its work when called again at once.

What a pause costs an honest call depends on the machine, the moment and the call: caches and the predictors of branches
are used by others, vector units and clocks slow down. So calls of PyTorch's own are timed in turns with those of a
kernel that looks guilty, and a kernel may lose as much as they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice
from math import ceil, inf
from os import urandom
from time import perf_counter
from typing import Any

from kernel_velocity.engine.timers import Call, HostTimer, RegionTimer, Timer

# A call by itself, after a pause that is drawn, may take so many times what calls in a row take, and so many s more. On
# a CPU the fastest of nine took at most .8 us more after .4 ms (22 kernels, busy machine), 2 us after 1 ms, and 1.3 us
# after 20 us where one element of every input was written as it is (5 us after .4 ms). On others it took 5 us more.
PAUSES = (2e-6, 2e-5, 2.5e-4)  # s, up to twice as long
TOUCHED = 2e-5  # the pause before which inputs are written
SINGLES = 9  # calls after pauses of a kind in a block of them, until one is near
SINGLES_SECONDS, SINGLES_FEWEST = 5.0, 3  # s that the blocks of an audit may take, and a block's calls beyond them
# Times that audits, each after another round of calls in a row, find no call near them before a kernel is refused. Each
# has twice as many blocks as the one before, and FEWEST_BLOCKS at least: another round takes as long as hundreds of
# calls. The slowest of the rounds and the fastest of all calls count.
APART_TURNS, FEWEST_BLOCKS = 5, 8
# Times what the honest calls lose that a kernel may lose. Of 270 times that of honest kernels beside 16 busy processes
# none took more than .8 of it, where the machine had not changed since the calls in a row.
HONEST = 2.0
LEAST, LARGEST = 64, 1 << 22  # elements
LONGEST = 1e-3  # s that an honest call need not exceed: of a longer one the same share is lost
BATCH, BATCH_SECONDS = 4, 2e-5  # honest calls in a row, at least


class AuditError(AssertionError):
    """What was timed is not what was checked."""


class ApartError(AuditError):
    """A call by itself takes longer than in a row. Where the machine got slower in between, both do, measured anew."""


def drawn() -> float:
    """Return a number from 0 to 1, not included, of the system's entropy."""
    return int.from_bytes(urandom(4), "little") / 2**32


class AloneCalls:
    """Calls of a kernel by themselves, in the audits of a round. `row` is the most s per call in a row so far."""

    def __init__(self, device: str, row: float = 0.0) -> None:
        self.row = row
        self._device = device
        self._audits = 0
        self._fastest = dict.fromkeys(PAUSES, inf)
        self._honest: HonestCalls | None = None

    def check(self, call: Call, touches: Sequence[Call], timer: Timer, near: float, moved: int) -> None:
        """Raise ApartError if no call after pauses of a kind is near one in a row.

        Args:
            call: of the kernel.
            touches: calls that write to its inputs without changing them.
            timer: of single calls.
            near: s that a call by itself may take in any case.
            moved: bytes of the kernel's inputs and outputs.
        """
        began, blocks = perf_counter(), max(2**self._audits, FEWEST_BLOCKS)
        if self._audits and self._honest is None:
            self._honest = HonestCalls(timer, self.row, self._device, moved)
        self._audits += 1
        for pause in PAUSES:
            before = partial(_wait, pause, touches if pause == TOUCHED else ())
            for block in range(blocks):
                is_late = perf_counter() - began > SINGLES_SECONDS
                if self._fastest[pause] <= near or (is_late and block > 0):
                    break
                self._fastest[pause] = min(self._fastest[pause], fastest(call, timer, before, near, began))
                if self._honest is not None:
                    self._honest.take(pause, before)
            seconds = self._fastest[pause]
            if seconds > near + (0.0 if self._honest is None else HONEST * self._honest.loss(pause)):
                raise ApartError(
                    f"{seconds / self.row:.3g} times as fast when called again at once: {self.row * 1e6:.3g} us in a "
                    f"row, {seconds * 1e6:.3g} us by itself {pause * 1e6:.3g} us after the last call"
                )


def fastest(call: Call, timer: Timer, before: Call, enough: float, began: float) -> float:
    """Return the s of the fastest of SINGLES calls by themselves, or of the first that takes `enough` s or less."""
    least = inf
    for number in range(SINGLES):
        if number >= SINGLES_FEWEST and perf_counter() - began > SINGLES_SECONDS:
            break
        before()
        least = min(least, *timer.samples(call, 1, 1))
        if least <= enough:
            break
    return least


def _wait(pause: float, touches: Sequence[Call]) -> None:
    """Write to inputs, and wait for a pause that is drawn, in this thread."""
    for touch in touches:
        touch()
    until = perf_counter() + pause * (1 + drawn())
    while perf_counter() < until:
        pass


# Honest calls ---------------------------------------------------------------------------------------------------------


class HonestCalls:
    """Calls of PyTorch's own, and what they lose by pauses: each takes as long as a kernel's, or moves as many bytes.

    What others take of the caches in a pause depends on what lies there, so that calls which stream are as large as the
    kernel's. As long as it, but larger, they would lose more than an honest one.

    Args:
        timer: of the kernel's calls. seconds: of one of them. device: "cpu" or "cuda".
        moved: bytes of the kernel's inputs and outputs.
    """

    def __init__(self, timer: Timer, seconds: float, device: str, moved: int) -> None:
        self._timer = HostTimer() if isinstance(timer, RegionTimer) else timer
        self._seconds, self._moved = seconds, moved
        self._calls = [self._sized(make, of_element, device) for make, of_element in KINDS]
        self._rows = [inf] * len(KINDS)
        self._alone = {pause: [inf] * len(KINDS) for pause in PAUSES}

    def _sized(self, make: Callable[[int, str], Call], of_element: int, device: str) -> tuple[Call, int, int]:
        """Return a call, how many of it are timed in a row, and its bytes. 0: it is as long as the kernel's, or longer.

        Args:
            of_element: bytes that it moves of each element. 0: time decides.
        """
        size, most = LEAST, self._timer.batch_limit
        if of_element:
            size = min(max(LEAST, self._moved // of_element), LARGEST)
        while True:
            call = make(size, device)
            call()
            seconds = min(self._timer.samples(call, min(BATCH, most), SINGLES))
            if of_element or seconds >= min(self._seconds, LONGEST) or size >= LARGEST:
                batch = min(max(BATCH, ceil(BATCH_SECONDS / max(seconds, 1e-9))), most)
                return call, batch, of_element * size
            size *= 2

    def take(self, pause: float, before: Call) -> None:
        """Time a block of each by themselves, after `before`, and some in a row."""
        for index, (call, batch, _) in enumerate(self._calls):
            alone = fastest(call, self._timer, before, 0.0, perf_counter())
            self._alone[pause][index] = min(self._alone[pause][index], alone)
            self._rows[index] = min(self._rows[index], *self._timer.samples(call, batch, 3))

    def loss(self, pause: float) -> float:
        """Return the most s that one of them loses by a pause. Of a kernel beyond their sizes, the same share."""
        most = 0.0
        for alone, row, (_, _, size) in zip(self._alone[pause], self._rows, self._calls, strict=True):
            beyond = self._moved / size if size else self._seconds / row
            if alone < inf:
                most = max(most, (alone - row) * max(1.0, beyond))
        return most


def _random(count: int, device: str) -> Any:
    import torch  # noqa: PLC0415 - discovery must work without torch

    return torch.randn(count, generator=torch.Generator().manual_seed(1)).to(device)


def _add(count: int, device: str) -> Call:
    """Return what streams through caches."""
    import torch  # noqa: PLC0415

    a, b, out = (_random(count, device) for _ in range(3))
    return partial(torch.add, a, b, out=out)


def _product(count: int, device: str) -> Call:
    """Return what keeps vector units busy."""
    import torch  # noqa: PLC0415

    side = int(count**0.5)
    a, b, out = (_random(side * side, device).reshape(side, side) for _ in range(3))
    return partial(torch.mm, a, b, out=out)


def _gather(count: int, device: str) -> Call:
    """Return what waits for caches."""
    import torch  # noqa: PLC0415

    order = torch.randperm(count, generator=torch.Generator().manual_seed(1)).to(device)
    return partial(torch.index_select, _random(count, device), 0, order, out=_random(count, device))


def _sort(count: int, device: str) -> Call:
    """Return what branches at random."""
    import torch  # noqa: PLC0415

    values = _random(count, device)
    return partial(torch.sort, values, out=tuple(torch.sort(values)))


def _small(count: int, device: str) -> Call:
    """Return many operations that do little: Python's and PyTorch's own code is most of them."""
    import torch  # noqa: PLC0415

    x = _random(LEAST, device)
    kinds = (torch.exp, torch.sum, torch.neg, torch.relu, torch.cumsum, torch.sin, torch.argmax, torch.sqrt)
    calls = [partial(kind, x, 0) if kind is torch.cumsum else partial(kind, x) for kind in kinds]
    some = list(islice(cycle(calls), max(1, count // LEAST)))

    def call() -> None:
        for operation in some:
            operation()

    return call


KINDS = ((_add, 12), (_product, 0), (_gather, 16), (_sort, 0), (_small, 0))  # with the bytes moved of an element
