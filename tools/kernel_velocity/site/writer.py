"""Writes a site's files: only those that changed, all of them before the first file of the older site is touched.

The site's own list of files, `site.json`, says what each was made from and what it became. A file that would be made
from the same inputs by the same code, or that comes out as it was, stays as it is. The others replace their
predecessors in one step each, the index last; files that only the older site had are removed, and nothing else is.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from kernel_velocity.errors import ResultsError
from kernel_velocity.site.outputs import DataFile, Page

MANIFEST = "site.json"
INDEX = "index.html"  # moved into place last: it links to the others
_FORMAT = 2  # of the manifest; 1 was a plain list of names


@dataclass(frozen=True, kw_only=True)
class Written:
    """What the list of files says of one."""

    size: int  # bytes
    digest: str  # of its bytes
    inputs: str  # digest of what it was made from; empty where its maker does not say


@dataclass(kw_only=True)
class Writer:
    """The site in the making: new files lie in `new` until `finish` moves them into `out`."""

    new: Path
    out: Path
    makers: str  # digest of the code and the templates
    files: dict[str, Written] = field(default_factory=dict)  # of the new site
    fresh: list[str] = field(default_factory=list)  # those of them that have to be moved
    made: int = 0  # pages and data files that were made, whether they came out another or not
    _before: Mapping[str, Written | None] = field(init=False)
    _sizes: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        listed = _written_before(self.out)
        self._sizes = _sizes(self.out, {name.rpartition("/")[0] for name in listed})
        self._before = {name: written for name, written in listed.items() if name in self._sizes}

    def page(self, page: Page, render: Callable[[Page], str]) -> None:
        """Add a page, which `render` turns into HTML where it has to be made."""
        inputs = self._inputs(page.template, page.inputs)
        if not self._is_kept([page.name], inputs):
            self.made += 1
            # JSON can hold half of a surrogate pair, UTF-8 cannot: it becomes a question mark
            self.add(page.name, render(page).encode("utf-8", "replace"), inputs)

    def data(self, data: DataFile) -> None:
        """Add data as JSON, and as a script that hands it to a page: from a folder, a page can load nothing else."""
        names = [f"data/{data.name}.json", f"data/{data.name}.js"]
        inputs = self._inputs("", data.inputs)
        if not self._is_kept(names, inputs):
            self.made += 1
            text = json_bytes(data.value() if callable(data.value) else data.value)
            self.add(names[0], text, inputs)
            self.add(names[1], b"KV.put(" + orjson.dumps(data.name) + b"," + text + b");\n", inputs)

    def add(self, name: str, content: bytes, inputs: str = "") -> None:
        """Add a file; it is written only where the site does not have it already."""
        found = Written(size=len(content), digest=hashlib.sha256(content).hexdigest(), inputs=inputs)
        known = self._before.get(name)
        if known is None or (known.size, known.digest, self._sizes.get(name)) != (
            found.size,
            found.digest,
            found.size,
        ):
            path = self.new / name
            if not self.fresh or Path(self.fresh[-1]).parent != Path(name).parent:
                path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            self.fresh.append(name)
        self.files[name] = found

    def _inputs(self, template: str, inputs: str | None) -> str:
        if inputs is None:
            return ""
        return hashlib.sha256(json.dumps([self.makers, template, inputs]).encode()).hexdigest()

    def _is_kept(self, names: Iterable[str], inputs: str) -> bool:
        """Return whether the site has files of these inputs, as they were written; then they are its files again."""
        known = {name: self._before.get(name) for name in names}
        for name, written in known.items():
            if not inputs or written is None or (written.inputs, written.size) != (inputs, self._sizes.get(name)):
                return False
        self.files.update({name: written for name, written in known.items() if written is not None})
        return True

    def part(self) -> Writer:
        """Return a writer of a part of the site, into the same folder; `add_part` adds what it wrote."""
        part = copy.copy(self)
        part.files, part.fresh, part.made = {}, [], 0
        return part

    def add_part(self, files: Mapping[str, Written], fresh: Iterable[str], made: int) -> None:
        """Add what a writer of a part has in its fields of these names."""
        self.files.update(files)
        self.fresh += fresh
        self.made += made

    def finish(self) -> None:
        """Move the new files into place, each in one step, then remove those that only the older site had."""
        stale = self._before.keys() - self.files.keys()
        fresh: dict[str, Written | None] = dict.fromkeys(self.fresh)
        # Until all is done the list names old and new, and says of what is being moved that it is not known: a crash
        # in between leaves nothing that no run removes, and nothing that passes for what it is not
        self._list({**self.files, **fresh, **dict.fromkeys(stale)})
        for folder in {str(Path(name).parent) for name in fresh}:
            (self.out / folder).mkdir(exist_ok=True)
        for name in sorted(self.fresh, key=lambda name: name == INDEX):
            (self.new / name).replace(self.out / name)
        for name in stale:
            (self.out / name).unlink(missing_ok=True)
        self._list(self.files)

    def _list(self, files: Mapping[str, Written | None]) -> None:
        entries = {name: each and [each.size, each.digest, each.inputs] for name, each in sorted(files.items())}
        (self.new / MANIFEST).write_bytes(json_bytes({"format": _FORMAT, "files": entries}))
        (self.new / MANIFEST).replace(self.out / MANIFEST)


def json_bytes(value: Any) -> bytes:
    """Return JSON in UTF-8; NaN becomes null. Half of a surrogate pair, which UTF-8 cannot hold, becomes "?"."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(value, option=options)
    except orjson.JSONEncodeError:
        return orjson.dumps(_encodable(value), option=options)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list | tuple) else value


def _sizes(out: Path, folders: Iterable[str]) -> dict[str, int]:
    """Return the sizes of the files in some folders of a site, by name, bytes; none of folders that are not inside."""
    found = {}
    for folder in folders:
        path = (out / folder).resolve()
        if path.is_relative_to(out.resolve()) and path.is_dir():
            with os.scandir(path) as listed:
                prefix = f"{folder}/" if folder else ""
                found.update({f"{prefix}{item.name}": item.stat().st_size for item in listed if item.is_file()})
    return found


def _written_before(out: Path) -> dict[str, Written | None]:
    """Return what an older site's list says of its files."""
    path = out / MANIFEST
    if not path.exists():
        return {}
    try:
        listed: Any = orjson.loads(path.read_bytes())
    except ValueError as error:
        raise ResultsError(f"{path}: not the list of a site's files ({error}): remove the folder {out}") from None
    if isinstance(listed, list):  # of format 1
        listed = {"files": dict.fromkeys(listed) if all(isinstance(name, str) for name in listed) else None}
    files = listed.get("files") if isinstance(listed, dict) else None
    if not isinstance(files, dict):
        raise ResultsError(f"{path}: a list of file names is wanted: remove the folder {out}")
    return {name: _written(entry) for name, entry in files.items()}


def _written(entry: object) -> Written | None:
    """Return an entry of the list; None where it does not say what the file is."""
    if not isinstance(entry, list) or [type(item) for item in entry] != [int, str, str]:
        return None
    size, digest, inputs = entry
    return Written(size=size, digest=digest, inputs=inputs)
