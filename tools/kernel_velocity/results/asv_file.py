"""One results file of asv, as ingest needs it: what is stored of each series, and putting a dropped value back."""

from __future__ import annotations

import datetime
import itertools
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from asv import util
from asv.results import Results, get_filename
from asv.runner import BenchmarkResult

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.join import StoredSeries

Series = tuple[str, tuple[str, ...]]  # benchmark, parameters


def paths(results: Path, environment: str, commit: str) -> list[Path]:
    """Return the results files of a commit and environment: at most one in each machine's folder."""
    name = Path(get_filename("machine", commit, environment)).name
    return sorted(folder / name for folder in results.iterdir() if (folder / name).is_file())


class StoredFile:
    """A results file, read once; changed by `restore` and written by `save`."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ResultsError: it is not a results file, or of a version that the installed asv does not know, or a row of
                it has no parameters, or not a value for each combination of them.
        """
        self.path = path
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
                raise ResultsError(f"{path}: an object with `results` is wanted, got {str(data)[:60]!r}")
            self._results: Any = Results.load(str(path))
        except (ValueError, TypeError, LookupError, util.UserError) as error:
            raise ResultsError(f"{path}: not a results file of asv: {error}") from None
        self._check()
        self.commit: str = self._results.commit_hash

    def _check(self) -> None:
        for name in self._results.get_all_result_keys():
            axes = self._results.get_result_params(name)
            if not isinstance(axes, list) or not all(isinstance(axis, list) for axis in axes):
                raise ResultsError(f"{self.path}: {name}: params: a list of lists is wanted, got {str(axes)[:60]!r}")
            wanted = len(self._combinations(name))
            for key, columns in (("result", self._results._results), ("samples", self._results._samples)):
                column = columns[name]
                if column is not None and (not isinstance(column, list) or len(column) != wanted):
                    raise ResultsError(
                        f"{self.path}: {name}: {key}: a list of {wanted} is wanted, got {str(column)[:60]!r}"
                    )

    def series(self) -> Iterator[tuple[Series, StoredSeries]]:
        """Yield every series that the file knows, with what is stored of it."""
        for name in self._results.get_all_result_keys():
            for index, params in enumerate(self._combinations(name)):
                yield (name, tuple(_plain(text) for text in params)), self._stored(name, index)

    @property
    def measured_at(self) -> float:
        """Unix time at which its newest benchmark ended, s, as the file itself says (a checkout changes its mtime)."""
        ends = [
            started_at + (self._results.duration.get(name) or 0.0) * 1000
            for name, started_at in self._results.started_at.items()
            if started_at is not None
        ]
        return max(ends, default=0.0) / 1000

    def version(self, benchmark: str) -> str | None:
        """Return the version of a benchmark whose values are stored."""
        found: str | None = self._results.benchmark_version.get(benchmark)
        return found

    def _combinations(self, name: str) -> list[tuple[str, ...]]:
        return list(itertools.product(*self._results.get_result_params(name)))

    def _stored(self, name: str, index: int) -> StoredSeries:
        params = self._results.get_result_params(name)
        value = self._results.get_result_value(name, params)[index]
        samples = self._results.get_result_samples(name, params)[index]
        stats = self._results.get_result_stats(name, params)[index] or {}
        started_at = self._results.started_at.get(name)
        measured = isinstance(value, int | float) and math.isfinite(value)
        return StoredSeries(
            value=value if measured else None,
            failed=value is None,
            samples=None if samples is None else tuple(samples),
            count=stats.get("repeat"),
            started_at=None if started_at is None else started_at / 1000,
            duration=self._results.duration.get(name),
        )

    def restore(self, series: Series, rounds: Sequence[Round]) -> None:
        """Put rounds of a series back that asv dropped; `save` writes it."""
        self._put(series, [item.estimate for item in rounds])

    def withdraw(self, series: Series) -> None:
        """Replace the value of a series by null, asv's "failed"; `save` writes it."""
        self._put(series, None)

    def _put(self, series: Series, estimates: list[float] | None) -> None:
        name, wanted = series
        combinations = self._combinations(name)
        index = [tuple(_plain(text) for text in params) for params in combinations].index(wanted)
        samples: list[list[float] | None] = [None] * len(combinations)
        samples[index] = estimates
        started_at = self._results.started_at.get(name) or 0
        self._results.add_result(
            {
                "name": name,
                "params": self._results.get_result_params(name),
                "version": self._results.benchmark_version.get(name),
            },
            BenchmarkResult(
                result=[None if sample is None else True for sample in samples],
                samples=samples,
                number=[None if sample is None else 1 for sample in samples],
                errcode=0,
                stderr="",
                profile=None,
            ),
            started_at=datetime.datetime.fromtimestamp(started_at / 1000, datetime.UTC),
            duration=self._results.duration.get(name),
            record_samples=True,
            selected_idx=[index],
        )

    def save(self) -> None:
        """Write the file back, through a temporary one."""
        with tempfile.TemporaryDirectory() as folder:
            self._results.save(folder)
            (saved,) = Path(folder).glob("*/*.json")
            replace_text(self.path, saved.read_text(encoding="utf-8"))


def _plain(text: str) -> str:
    """Return a parameter as the suite spells it; asv stores its repr."""
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text
