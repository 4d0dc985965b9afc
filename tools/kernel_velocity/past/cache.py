"""The cache of a results directory: a SQLite file with its values and with results computed from them.

It is safe to delete: all of it follows from the results directory. A results file is a row, with the file's signature
and its values as arrays (packing.py). Results computed from the values, such as change points, are answers
(`Answers`), emptied when the code that computes them changes. Changes are made in transactions, so
a killed report leaves the earlier contents.

SQLite has no checksums, so each row has one. Where a row is damaged, the cache is thrown away and made anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.past.packing import ADJUSTMENT, ENTRY, ROUND, STORED, TRACKED, Entries, Names, Numbers, Packed

FILE_NAME = "report.sqlite"
TABLES_VERSION = 8
ROOMS_OF_VALUES = ("engine", "results", "stats", "past")  # the rooms whose code makes what `Cache` keeps
_PATIENCE = 60.0  # s to wait for another report that is writing
_PAGE = 32768  # bytes; blobs of 50 kB and more are chains of pages
_AT_ONCE = 500  # keys of one query
_CHECKSUM = "checksum INTEGER NOT NULL"
_TABLES = {
    "made": "(kind TEXT PRIMARY KEY, identity TEXT NOT NULL)",
    "name": "(kind TEXT NOT NULL, number INTEGER NOT NULL, value TEXT NOT NULL,"
    f" {_CHECKSUM}, PRIMARY KEY (kind, number))",
    "file": "(path TEXT PRIMARY KEY, signature TEXT NOT NULL, sha TEXT NOT NULL, notes TEXT NOT NULL,"
    " hardware TEXT NOT NULL, sessions TEXT NOT NULL, series BLOB NOT NULL, entries BLOB NOT NULL,"
    f" rounds BLOB NOT NULL, tracked BLOB NOT NULL, {_CHECKSUM}, of_series INTEGER NOT NULL,"
    " of_entries INTEGER NOT NULL, of_rounds INTEGER NOT NULL, of_tracked INTEGER NOT NULL)",
    "adjustment": f"(path TEXT PRIMARY KEY, entries BLOB NOT NULL, {_CHECKSUM})",
    "fit": f"(series TEXT PRIMARY KEY, basis BLOB NOT NULL, value TEXT NOT NULL, {_CHECKSUM})",
    "answer": f"(key TEXT PRIMARY KEY, value BLOB NOT NULL, {_CHECKSUM})",
}
_TABLES_OF_VALUES = ("name", "file", "adjustment", "fit")
_PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def code(*rooms: str, package: Path = _PACKAGE) -> str:
    """Return a digest of the source files of some rooms, or of the whole package, as they were at the first call."""
    files = [sorted((package / room).rglob("*.py")) for room in rooms or ("",)]
    if not all(files):
        raise FileNotFoundError(f"{package}: a room of {rooms} has no code")
    digest = hashlib.sha256()
    for path in sorted(path for several in files for path in several):
        digest.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """The cached facts of a results file, without its arrays."""

    signature: str  # size, times and inode of the file, of its rounds, failures and sessions, "|" between them
    commit: str  # full SHA; empty where the file cannot be read
    notes: tuple[str, ...]
    hardware: Mapping[str, str]  # of `ResultsFile`
    sessions: tuple[str, ...]  # lines of `results.sessions`

    @property
    def has_telemetry(self) -> bool:
        """Whether a file of rounds lay beside it."""
        return bool(self.signature.split("|")[1])


class Cache:
    """The values of one results directory and repository. `names` maps the numbers in the arrays to series and texts.

    The file is locked from the opening until `close`. Changes after the last `save` are lost.
    """

    def __init__(self, folder: Path | None, results: Path, repository: Path) -> None:
        """Open or make the cache in a folder. Without a folder it lasts as long as this object.

        Raises:
            OSError: the cache can be neither read nor written there, or another report holds it.
            sqlite3.DatabaseError: a name is damaged.
        """
        self.folder = folder
        where = [str(results.resolve()), str(repository.resolve())]
        self._identity = json.dumps(
            [*where, ENTRY.descr, ROUND.descr, TRACKED.descr, ADJUSTMENT.descr, code(*ROOMS_OF_VALUES)]
        )
        try:
            try:
                self._connection = self._opened()
            except sqlite3.DatabaseError as error:
                if folder is None or "locked" in str(error):
                    raise
                remove(folder)
                self._connection = self._opened()
        except sqlite3.Error as error:
            raise OSError(f"{folder}: {error}") from None
        try:
            self.names = self._read_names()
        except BaseException:  # a damaged row: the caller removes the file
            self._connection.close()
            raise
        self._saved = [len(numbers.values) for numbers in self._kinds().values()]

    def _opened(self) -> sqlite3.Connection:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        connection = _connected(self.folder)
        try:
            _check(connection, self.folder)
            if _maker(connection, "values") != self._identity:
                for table in _TABLES_OF_VALUES:
                    connection.execute(f"DELETE FROM {table}")
                connection.execute("INSERT OR REPLACE INTO made VALUES ('values', ?)", [self._identity])
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_names(self) -> Names:
        listed = self._sound("SELECT checksum, kind, number, value FROM name ORDER BY number")
        values: dict[str, list[Any]] = {"series": [], "texts": [], "remarks": []}
        for kind, number, value in listed:
            if number != len(values[kind]):
                raise sqlite3.DatabaseError(f"a name is missing before number {number}")
            values[kind].append(json.loads(value))
        return Names(
            series=Numbers([tuple(value) for value in values["series"]]),
            texts=Numbers(values["texts"]),
            remarks=Numbers([(reason, tuple(warnings)) for reason, warnings in values["remarks"]]),
        )

    def _kinds(self) -> dict[str, Numbers[Any]]:
        return {"series": self.names.series, "texts": self.names.texts, "remarks": self.names.remarks}

    def files(self) -> dict[str, FileFacts]:
        """Return the facts of the results files, by path ("<machine>/<file>", in the results directory)."""
        columns = "path, signature, sha, notes, hardware, sessions"
        rows = self._sound(f"SELECT checksum, {columns} FROM file")
        return {
            json.loads(path): FileFacts(
                signature=signature,
                commit=sha,
                notes=tuple(json.loads(notes)),
                hardware=json.loads(hardware),
                sessions=tuple(json.loads(sessions)),
            )
            for path, signature, sha, notes, hardware, sessions in rows
        }

    def put(self, path: str, facts: FileFacts, packed: Packed) -> None:
        """Store a results file, in place of its earlier contents."""
        texts = [json.dumps(text) for text in (facts.notes, dict(facts.hardware), facts.sessions)]
        series, rounds, tracked = (
            array.tobytes() for array in (packed.entries["series"], packed.rounds, packed.tracked)
        )
        entries = b"".join(packed.entries[name].tobytes() for name in STORED)  # columns are joined in half the time
        self.remove(path)
        row: list[Any] = [json.dumps(path), facts.signature, facts.commit, *texts]
        checksum, blobs = _checksum_of(row), ([series], [series, entries], [rounds], [tracked])
        row += [series, entries, rounds, tracked, checksum, *(_checksum_of([row[0], *blob]) for blob in blobs)]
        self._connection.execute(f"INSERT INTO file VALUES ({', '.join('?' * len(row))})", row)

    def remove(self, path: str) -> None:
        """Forget a results file."""
        for statement in ("DELETE FROM file WHERE path = ?", "DELETE FROM adjustment WHERE path = ?"):
            self._connection.execute(statement, [json.dumps(path)])

    def counts(self, paths: Collection[str]) -> NDArray[np.int64]:
        """Return how many values results files have of each series, by its number."""
        counts = np.zeros(len(self.names.series.values) + 1, np.int64)
        for path, series in self._sound("SELECT of_series, path, series FROM file"):
            if json.loads(path) in paths:
                counts += np.bincount(np.frombuffer(series, ENTRY["series"]), minlength=len(counts))
        return counts

    def entries(self, path: str) -> dict[str, NDArray[Any]]:
        """Return the values of a results file as columns, by name of ENTRY."""
        query = "SELECT of_entries, path, series, entries FROM file WHERE path = ?"
        ((_, series, stored),) = self._sound(query, [json.dumps(path)])
        columns, offset = {"series": np.frombuffer(series, ENTRY["series"])}, 0
        for name in STORED:
            columns[name] = np.frombuffer(stored, ENTRY[name], len(columns["series"]), offset)
            offset += columns[name].nbytes
        return columns

    def rounds(self, path: str) -> Entries:
        """Return the rounds of a results file."""
        ((_, blob),) = self._sound("SELECT of_rounds, path, rounds FROM file WHERE path = ?", [json.dumps(path)])
        return np.frombuffer(blob, dtype=ROUND)

    def tracked(self) -> dict[str, Entries]:
        """Return the TRACKED entries by path, of the results files that have some."""
        rows = self._sound("SELECT of_tracked, path, tracked FROM file WHERE length(tracked) > 0")
        return {json.loads(path): np.frombuffer(blob, dtype=TRACKED) for path, blob in rows}

    def with_rounds(self) -> frozenset[str]:
        """Return the results files that have rounds."""
        rows = self._connection.execute("SELECT path FROM file WHERE length(rounds) > 0").fetchall()
        return frozenset(json.loads(path) for (path,) in rows)

    def adjustments(self, path: str) -> Entries | None:
        """Return the stored adjustments of the values of a results file. None: there are none."""
        rows = self._sound("SELECT checksum, path, entries FROM adjustment WHERE path = ?", [json.dumps(path)])
        return np.frombuffer(rows[0][1], dtype=ADJUSTMENT) if rows else None

    def put_adjustments(self, path: str, entries: Entries) -> None:
        """Store the adjustments of the values of a results file."""
        row = [json.dumps(path), entries.tobytes()]
        self._connection.execute("INSERT OR REPLACE INTO adjustment VALUES (?, ?, ?)", [*row, _checksum_of(row)])

    def fits(self) -> dict[str, tuple[bytes, str]]:
        """Return, for each series, the digest of its basis, and the fit."""
        rows = self._sound("SELECT checksum, series, basis, value FROM fit")
        return {series: (bytes(basis), value) for series, basis, value in rows}

    def put_fit(self, series: str, basis: bytes, value: str) -> None:
        """Store the fit of a series."""
        row = [series, basis, value]
        self._connection.execute("INSERT OR REPLACE INTO fit VALUES (?, ?, ?, ?)", [*row, _checksum_of(row)])

    def save(self) -> None:
        """Commit everything since the last `save`."""
        for saved, (kind, numbers) in zip(self._saved, self._kinds().items(), strict=True):
            rows = [
                (kind, number, json.dumps(value)) for number, value in enumerate(numbers.values[saved:], start=saved)
            ]
            checked = [(*row, _checksum_of(row)) for row in rows]
            self._connection.executemany("INSERT INTO name VALUES (?, ?, ?, ?)", checked)
        self._connection.execute("COMMIT")
        self._saved = [len(numbers.values) for numbers in self._kinds().values()]
        self._connection.execute("BEGIN IMMEDIATE")

    def _sound(self, query: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query, without the checksum of the others that is their first value.

        Raises:
            sqlite3.DatabaseError: a row is damaged.
        """
        rows = self._connection.execute(query, values).fetchall()
        for checksum, *row in rows:
            if checksum != _checksum_of(row):
                raise sqlite3.DatabaseError("a row does not have its checksum")
        return [tuple(row[1:]) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class Answers:
    """Results computed from values by key, stored from one report to the next.

    Each call opens the file anew, so that a forked process may use the object. Where the file cannot be used, nothing
    is stored: the answers are computed again, and `Past` has a note on the cache.
    """

    def __init__(self, folder: Path | None, maker: str) -> None:
        """Take the folder of the cache (None: nothing is stored), and what changes with the code that computes them."""
        self._folder, self._maker = folder, maker

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the stored answers of some keys."""
        with contextlib.suppress(sqlite3.Error, OSError), self._opened(write=False) as connection:
            wanted, rows = list(keys), list[tuple[str, bytes, int]]()
            if connection is not None and _maker(connection, "answers") == self._maker:
                for start in range(0, len(wanted), _AT_ONCE):
                    some = wanted[start : start + _AT_ONCE]
                    query = f"SELECT key, value, checksum FROM answer WHERE key IN ({', '.join('?' * len(some))})"
                    rows += connection.execute(query, some).fetchall()
            return {key: value for key, value, checksum in rows if checksum == _checksum_of([key, value])}
        return {}

    def put(self, answers: Mapping[str, bytes], *, keep: Callable[[str], bool]) -> None:
        """Store answers. `keep` removes the answers of all keys for which it is false."""
        with contextlib.suppress(sqlite3.Error, OSError), self._opened(write=True) as connection:
            if connection is None:
                return
            if _maker(connection, "answers") != self._maker:
                connection.execute("DELETE FROM answer")
                connection.execute("INSERT OR REPLACE INTO made VALUES ('answers', ?)", [self._maker])
            rows = [(key, value, _checksum_of([key, value])) for key, value in answers.items()]
            connection.executemany("INSERT OR REPLACE INTO answer VALUES (?, ?, ?)", rows)
            stored = connection.execute("SELECT key FROM answer").fetchall()
            connection.executemany("DELETE FROM answer WHERE key = ?", [(key,) for (key,) in stored if not keep(key)])
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def _opened(self, *, write: bool) -> Iterator[sqlite3.Connection | None]:
        if self._folder is None or not (write or (self._folder / FILE_NAME).exists()):
            yield None
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        connection = _connected(self._folder, write=write)
        try:
            _check(connection, self._folder)
            yield connection
        finally:
            connection.close()


def _checksum_of(row: Iterable[Any]) -> int:
    """Return the checksum of a row's values."""
    checksum = 0
    for value in row:
        contents = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        checksum = zlib.crc32(contents, zlib.crc32(f"{len(contents)}".encode(), checksum))
    return checksum


def _connected(folder: Path | None, *, write: bool = True) -> sqlite3.Connection:
    """Return a connection in a transaction."""
    path = ":memory:" if folder is None else folder / FILE_NAME
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, folder: Path | None) -> None:
    """Make the tables of a new file. Refuse a file of another format, or one that was cut short."""
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if not tables:
        for name, columns in _TABLES.items():
            connection.execute(f"CREATE TABLE {name} {columns}")
        connection.execute(f"PRAGMA user_version = {TABLES_VERSION}")
    elif version != TABLES_VERSION:
        raise sqlite3.DatabaseError(f"the cache has format {version}, {TABLES_VERSION} is wanted")
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    if folder is not None and 0 < (folder / FILE_NAME).stat().st_size != pages * _PAGE:
        raise sqlite3.DatabaseError("cut short")


def _maker(connection: sqlite3.Connection, kind: str) -> str | None:
    row = connection.execute("SELECT identity FROM made WHERE kind = ?", [kind]).fetchone()
    return None if row is None else str(row[0])


def remove(folder: Path) -> None:
    """Remove the cache of a folder."""
    for name in (FILE_NAME, f"{FILE_NAME}-journal"):
        (folder / name).unlink(missing_ok=True)
