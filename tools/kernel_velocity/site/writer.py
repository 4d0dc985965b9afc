"""Write the files of a site: only those that changed, and all of them before the first old file is touched.

The manifest `site.json` lists each file with its size, its digest and the digest of its inputs. A file whose inputs or
whose content is unchanged stays as it is. The others replace their predecessors in one step each, the index last.
Files that only the older site had are removed. Files of other origin are left alone.
"""

from __future__ import annotations

import codecs
import copy
import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kernel_velocity import documents
from kernel_velocity.documents import with_checksum
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import naming
from kernel_velocity.results.measurement import SeriesKey

MANIFEST = "site.json"
INDEX = "index.html"  # moved into place last: it links to the others
FOLDERS = ("data", "static")  # of a site
_FORMAT = 4  # of the manifest
_PACKED = 600  # bytes of JSON, from which on it is written packed: 45% of the bytes of digits
_BITS, _LETTER = 15, 0x3400  # of a letter, and the first of 2^15 that are none of control or half of a pair
_LEVEL = 4  # of gzip: 6 takes 1.75 times as long for 2% less, 1 .7 times for 5% more


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: a template of html_templates/ and its context.

    `inputs` is a text that changes whenever the page would. It allows `context` to be a function, which is called only
    where the site has no page made of the same inputs by the same code and templates. None: the page is always made.
    """

    name: str  # of the file
    template: str
    context: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    inputs: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """Data beside the pages: `data/<name>.js`, which a page loads with `KV.load(name)`, and other tools as `read_data`.

    `value` is JSON with numpy arrays, where NaN becomes null, or a function that returns it. With `template` it is that
    template's context, and the data are its HTML, a text. `inputs` as of a page.
    """

    name: str
    value: Any
    inputs: str | None = None
    template: str = ""


def read_data(path: Path) -> Any:
    """Return the value of a data file, as other tools read it."""
    content = path.read_bytes()
    text = content.decode("utf-16" if content.startswith(codecs.BOM_UTF16_LE) else "utf-8")
    value = json.loads(text.partition(",")[2].removesuffix(");\n"))
    is_packed = isinstance(value, dict) and "gzip" in value
    return json.loads(_unpacked(value["gzip"], value["size"])) if is_packed else value


@cache
def series_name(key: SeriesKey) -> str:
    """Return the name of a series' data file: a digest of its key, the same at every run."""
    # not `astuple`, which copies the parts: a site has thousands of these
    parts = (key.machine, key.environment, key.benchmark, key.implementation, key.case, key.version)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"series-{digest[:16]}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the manifest says of a file."""

    size: int  # bytes
    digest: str  # of its bytes
    inputs: str  # digest of its inputs; empty for none


@dataclass(kw_only=True)
class Writer:
    """Writes changed files into `new`, and with `finish` moves them into `out`."""

    new: Path
    out: Path
    makers: str  # digest of the code and the templates
    files: dict[str, Entry] = field(default_factory=dict)  # of the new site
    fresh: list[str] = field(default_factory=list)  # the files in `new`
    made: int = 0  # pages and data files that were made, changed or not
    _before: Mapping[str, Entry | None] = field(init=False)  # of the older site; None: unknown
    _sizes: Mapping[str, int] = field(init=False)  # on disk

    def __post_init__(self) -> None:
        for folder in FOLDERS:
            (self.new / folder).mkdir(exist_ok=True)
        manifest = _read_manifest(self.out)
        self._sizes = _sizes(self.out, {name.rpartition("/")[0] for name in manifest})
        self._before = {name: entry for name, entry in manifest.items() if name in self._sizes}

    def page(self, page: Page, render: Callable[[Page], str]) -> None:
        """Add a page, which `render` turns into HTML if it has to be made."""
        inputs = self._digest(page.template, page.inputs)
        if not self._is_unchanged(page.name, inputs):
            self.made += 1
            # JSON can hold half of a surrogate pair, UTF-8 cannot: it becomes a question mark
            self.add(page.name, render(page).encode("utf-8", "replace"), inputs)

    def data(self, data: DataFile) -> None:
        """Add data as a script: from a folder, a page can load nothing else."""
        name = f"data/{data.name}.js"
        inputs = self._digest("", data.inputs)
        if not self._is_unchanged(name, inputs):
            self.made += 1
            text = json_bytes(data.value() if callable(data.value) else data.value)
            head, is_packed = f"KV.put({json.dumps(data.name)},", len(text) >= _PACKED
            self.add(name, _packed(head, text) if is_packed else head.encode() + text + b");\n", inputs)

    def add(self, name: str, content: bytes, inputs: str = "") -> None:
        """Add a file. It is written only if the site does not have it already."""
        entry = Entry(size=len(content), digest=_digest(content), inputs=inputs)
        before = self._before.get(name)
        if before is None or (before.digest, self._sizes[name]) != (entry.digest, entry.size):
            with naming(self.new / name):
                (self.new / name).write_bytes(content)
            self.fresh.append(name)
        self.files[name] = entry

    def _digest(self, template: str, inputs: str | None) -> str:
        if inputs is None:
            return ""
        return _digest("\0".join([self.makers, template, inputs]).encode("utf-8", "surrogatepass"))

    def _is_unchanged(self, name: str, inputs: str) -> bool:
        """Return whether the site has a file of these inputs in the size it was written in. If so, list it."""
        entry = self._before.get(name)
        if not inputs or entry is None or (entry.inputs, entry.size) != (inputs, self._sizes[name]):
            return False
        self.files[name] = entry
        return True

    def part(self) -> Writer:
        """Return a writer for another process, into the same folder. `add_part` takes its fields back."""
        part = copy.copy(self)
        part.files, part.fresh, part.made = {}, [], 0
        return part

    def add_part(self, files: Mapping[str, Entry], fresh: Iterable[str], made: int) -> None:
        """Add what the writer of a part has in its fields of these names."""
        self.files.update(files)
        self.fresh += fresh
        self.made += made

    def finish(self) -> None:
        """Move the new files into place, each in one step, then remove those that only the older site had."""
        stale = self._before.keys() - self.files.keys()
        fresh: dict[str, Entry | None] = dict.fromkeys(self.fresh)
        # Until all is done the manifest lists old and new, and the files that are being moved as unknown: after a crash
        # the next run removes everything stale, and takes no file for what it is not
        self._write_manifest({**self.files, **fresh, **dict.fromkeys(stale)})
        whole = [folder for folder in FOLDERS if not (self.out / folder).exists()]  # one step for thousands of files
        for folder in whole:
            (self.new / folder).replace(self.out / folder)
        for name in sorted(self.fresh, key=lambda name: name == INDEX):
            if name.partition("/")[0] not in whole:
                (self.new / name).replace(self.out / name)
        for name in stale:
            (self.out / name).unlink(missing_ok=True)
        self._write_manifest(self.files)

    def _write_manifest(self, files: Mapping[str, Entry | None]) -> None:
        entries = {name: entry and [entry.size, entry.digest, entry.inputs] for name, entry in sorted(files.items())}
        text = json_bytes({"format": _FORMAT, "files": entries}).decode("utf-8")
        (self.new / MANIFEST).write_text(with_checksum(text), encoding="utf-8")
        (self.new / MANIFEST).replace(self.out / MANIFEST)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _packed(head: str, text: bytes) -> bytes:
    """Return a script with JSON as letters of 15 bits of its gzip each, in UTF-16: Base64 has a quarter more bytes."""
    packed = gzip.compress(text, _LEVEL, mtime=0)
    bits = np.unpackbits(np.frombuffer(packed, np.uint8))
    rows = np.zeros((-(-bits.size // _BITS), 16), np.uint8)
    bits.resize(len(rows) * _BITS, refcheck=False)  # with zeros, under a profiler, too
    rows[:, 16 - _BITS :] = bits.reshape(-1, _BITS)
    letters = np.packbits(rows).view(">u2") + _LETTER
    before, after = f'{head}{{"size":{len(packed)},"gzip":"'.encode("utf-16-le"), '"});\n'.encode("utf-16-le")
    return codecs.BOM_UTF16_LE + before + letters.astype("<u2").tobytes() + after


def _unpacked(letters: str, size: int) -> bytes:
    numbers = np.frombuffer(letters.encode("utf-16-be"), ">u2") - np.uint16(_LETTER)
    bits = np.unpackbits(numbers.astype(">u2").view(np.uint8).reshape(-1, 2), axis=1)[:, 16 - _BITS :]
    return gzip.decompress(np.packbits(bits).tobytes()[:size])


def json_bytes(value: Any) -> bytes:
    """Return JSON in UTF-8. NaN becomes null, and half of a surrogate pair, which UTF-8 cannot hold, "?"."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(value, option=options)
    except orjson.JSONEncodeError:
        return orjson.dumps(_encodable(value), option=options)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(part) for key, part in value.items()}
    return [_encodable(part) for part in value] if isinstance(value, list | tuple) else value


def _sizes(out: Path, folders: Iterable[str]) -> dict[str, int]:
    """Return the sizes of the files in some folders of a site, bytes, by name. Folders outside of it are skipped."""
    sizes = {}
    for folder in folders:
        path = (out / folder).resolve()
        if path.is_relative_to(out.resolve()) and path.is_dir():
            with os.scandir(path) as entries:
                prefix = f"{folder}/" if folder else ""
                sizes.update({f"{prefix}{file.name}": file.stat().st_size for file in entries if file.is_file()})
    return sizes


def _read_manifest(out: Path) -> dict[str, Entry | None]:
    """Return the files of an older site. None for one of which the manifest says nothing that can be used."""
    path = out / MANIFEST
    try:
        files = documents.read(path).get("files")
    except FileNotFoundError:
        return {}
    except documents.DamagedError as error:
        raise ResultsError(f"{path}: {error}: remove the folder {out}") from None
    if not isinstance(files, dict) or any("\0" in name for name in files):
        raise ResultsError(f"{path}: not the list of a site's files: remove the folder {out}")
    return {name: _entry(fields) for name, fields in files.items()}


def _entry(fields: object) -> Entry | None:
    if not isinstance(fields, list) or [type(value) for value in fields] != [int, str, str]:
        return None
    return Entry(size=fields[0], digest=fields[1], inputs=fields[2])
