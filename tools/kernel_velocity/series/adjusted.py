"""What every series of a layout is adjusted by: fitted on its first rounds, or taken from the cache.

Which rounds these are, and what tells whether they are still the same, follows from digests of the rounds of values, so
that of the rounds themselves only those are read that something is fitted on anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.results.measurement import Fit, SeriesKey, Signal
from kernel_velocity.series import adjusted_rounds
from kernel_velocity.series.adjusted_rounds import Read, Slots
from kernel_velocity.series.cache import Cache
from kernel_velocity.series.layout import Layout
from kernel_velocity.series.packing import NOTHING
from kernel_velocity.stats import adjust_series as adjusted_series
from kernel_velocity.stats.adjust import Logs
from kernel_velocity.stats.adjust_series import Centres, Rounds
from kernel_velocity.stats.growth import grown

_BLOCK = 2_000_000  # rounds held at a time: 80 MB
_NAMES = tuple(each.name for each in fields(SeriesKey))
Digests = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Beside:
    """The controls that tell of series without gauges."""

    keys: tuple[SeriesKey, ...]
    slots: Slots  # (controls, commits) where their values lie; -1: there is none
    told: Digests  # (commits,) of all their rounds

    def rounds(self, found: Read, commits: NDArray[np.int32]) -> dict[SeriesKey, Rounds]:
        """Return the rounds of every control at some commits."""
        slots = self.slots[:, commits]
        return {key: found.of(row[row >= 0].tolist()) for key, row in zip(self.keys, slots, strict=True)}


@dataclass(kw_only=True, eq=False)
class Series:
    """A series, as far as one method timed it."""

    key: SeriesKey
    method: str
    slots: Slots  # of its values that have rounds
    first: Slots  # of its basis, in the order in which it was measured
    beside: Beside | None  # None: it has gauges
    basis: bytes  # digest of what it is fitted on
    fit: Fit | None = None  # None: nothing tells of it
    centres: Centres = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is kept by."""
        return json.dumps([*astuple(self.key), self.method])

    def restore(self, text: str) -> None:
        """Take what was fitted, as it is kept."""
        found, usual = json.loads(text)
        self.centres = {SeriesKey(**dict(zip(_NAMES, key, strict=True))): value for key, value in usual}
        if found is not None:
            self.fit = Fit(**{**found, "signals": tuple(Signal(**each) for each in found["signals"])})

    @property
    def text(self) -> str:
        """What was fitted, to be kept."""
        usual = [(astuple(key), value) for key, value in self.centres.items()]
        return json.dumps([None if self.fit is None else asdict(self.fit), usual])


class Bases:
    """What the series of a layout are fitted on."""

    def __init__(
        self, cache: Cache, layout: Layout, paths: Sequence[str], told: Digests, is_gauged: NDArray[np.bool_]
    ) -> None:
        """Take a layout.

        Args:
            paths: of the results files that have rounds.
            told: of every value, a digest of its rounds; 0: it has none. is_gauged: whether they have gauges.
        """
        self._cache, self._layout, self._paths = cache, layout, paths
        self._told, self._is_gauged = told, is_gauged
        self._known_beside: dict[tuple[tuple[str, ...], int], Beside] = {}
        self._known_usual: dict[tuple[object, ...], Centres] = {}

    def fitted(self) -> list[Series]:
        """Return every series that has rounds; what was fitted anew is put into the cache."""
        every = [one for number in range(len(self._layout.keys)) for one in self._of(number)]
        self._fit_all(every)
        return every

    def _of(self, number: int) -> Iterator[Series]:
        """Yield a series of the layout, method by method."""
        part, columns, commit = self._layout.part(number, on_line=False), self._layout.columns, self._layout.commit
        own = part.start + np.flatnonzero(self._told[part])
        methods = columns["method"][own]
        for method in np.unique(methods).tolist():
            slots = own[methods == method]
            order = np.lexsort((self._rank[commit[slots]], columns["began"][slots]))
            first = slots[order[: grown(len(slots))]]
            key, said = self._layout.keys[number], [self._told[first], columns["code"][first]]
            beside = None if self._is_gauged[first].any() else self._beside(key, method)
            if beside is not None:
                said.append(beside.told[commit[first]])
            basis = hashlib.blake2b(b"".join(each.tobytes() for each in said), digest_size=8).digest()
            text = self._cache.names.texts[method]
            yield Series(key=key, method=text, slots=slots, first=first, beside=beside, basis=basis)

    @cached_property
    def _rank(self) -> Slots:
        """By commit, its place in the order of their SHAs."""
        return np.argsort(np.argsort(np.array(self._layout.commits)))

    def _beside(self, key: SeriesKey, method: int) -> Beside:
        """Return the controls of a series that a method timed; none of a control."""
        own = () if key.implementation in CONTROLS else adjusted_series.seconds_of(key)
        if (own, method) not in self._known_beside:
            self._known_beside[own, method] = self._controls(own, method)
        return self._known_beside[own, method]

    def _controls(self, seconds: tuple[str, ...], method: int) -> Beside:
        layout, commit = self._layout, self._layout.commit
        every = (key for key in layout.keys if key.implementation in CONTROLS)
        keys = tuple(key for key in every if adjusted_series.seconds_of(key) == seconds)
        slots = np.full((len(keys), len(layout.commits)), -1, np.int64)
        told = np.zeros(len(layout.commits), np.uint64)
        for row, key in enumerate(keys):
            part = layout.part(layout.numbers[key], on_line=False)
            has = (self._told[part] != 0) & (layout.columns["method"][part] == method)
            own = part.start + np.flatnonzero(has)
            slots[row, commit[own]] = own
            told[commit[own]] += self._told[own] * _odd(key)
        return Beside(keys=keys, slots=slots, told=told)

    def _fit_all(self, series: Sequence[Series]) -> None:
        known = self._cache.fits()
        unknown = []
        for one in series:
            basis, text = known.get(one.name, (b"", ""))
            if basis == one.basis:
                one.restore(text)
                one.centres = self._shared(one.centres)
            else:
                unknown.append(one)
        for block in self._blocks(unknown):
            wanted = adjusted_rounds.none(self._layout)
            for one in block:
                wanted[one.first] = True
                if one.beside is not None:
                    wanted[one.beside.slots[:, self._layout.commit[one.first]]] = True
            self._fit(block, adjusted_rounds.read(self._cache, self._layout, self._paths, wanted))

    def _shared(self, usual: Centres) -> Centres:
        """Return the one object of those that say the same."""
        return self._known_usual.setdefault(tuple(usual.items()), usual)

    def _blocks(self, series: Sequence[Series]) -> Iterator[Sequence[Series]]:
        """Yield series, those together of whose rounds memory may hold as many."""
        block: list[Series] = []
        held = 0
        for one in series:
            count = int(self._layout.columns["rounds"][one.first].sum())
            if block and held + count > _BLOCK:
                yield block
                block, held = [], 0
            block.append(one)
            held += count
        if block:
            yield block

    def _fit(self, block: Sequence[Series], found: Read) -> None:
        commit, texts = self._layout.commit, self._cache.names.texts
        told: tuple[object, Logs, Centres] = (None, {}, {})  # most series have their controls and commits in common
        for one in block:
            if one.beside is not None:
                asked = id(one.beside), commit[one.first].tobytes()
                if told[0] != asked:
                    controls = one.beside.rounds(found, commit[one.first])
                    usual = self._shared(adjusted_series.centres(controls))
                    told = asked, adjusted_series.witnessed(controls, usual), usual
                one.centres = told[2]
            codes = zip(commit[one.first].tolist(), self._layout.columns["code"][one.first].tolist(), strict=True)
            code = {str(number): texts[text] for number, text in codes if text != NOTHING}
            rounds = found.of(one.first.tolist())
            one.fit = adjusted_series.fit(rounds, {} if one.beside is None else told[1], code, one.method)
            self._cache.put_fit(one.name, one.basis, one.text)


def _odd(key: SeriesKey) -> np.uint64:
    """Return an odd number for a series, so that sums of products with it tell whose digest was added."""
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest) | 1)
