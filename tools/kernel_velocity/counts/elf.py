"""Read a 64-bit little-endian ELF file: its sections, symbols and relocations, and where its functions end.

Addresses are those of the file, bytes. A large library has a hundred thousand symbols, so tables are arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

MAGIC = b"\x7fELF\x02\x01"
X86_64, AARCH64, CUDA = 62, 183, 190  # e_machine
SHARED = 3  # ET_DYN: a library, or a program that is loaded anywhere
ALLOCATED, EXECUTABLE = 2, 4  # SHF_*
OF_THREADS = 0x400  # SHF_TLS: at addresses that others have, too
WITHOUT_BYTES, NOTE = 8, 7  # SHT_*
SYMBOLS, RELOCATIONS, PACKED, DYNAMIC_SYMBOLS = 2, 4, 19, 11
OBJECT, FUNCTION, IFUNC = 1, 2, 10  # STT_*
# R_X86_64_* and R_AARCH64_*: a symbol's address, and an address of the file
OF_SYMBOL = frozenset({1, 6, 7, 257, 1025, 1026})
OF_FILE = frozenset({8, 37, 1027, 1032})
INNER = 8  # symbols without a size, or inside of another, that are looked behind
_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("at", "<u2"), ("value", "<u8"), ("size", "<u8")])
_RELOCATION = np.dtype([("offset", "<i8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


class Section(NamedTuple):
    """A section: SHT_* kind, SHF_* flags, address, and bytes. Of one without bytes in the file, `size` tells."""

    name: str
    kind: int
    flags: int
    address: int
    size: int
    link: int
    info: int
    content: bytes


class Span(NamedTuple):
    """The place of a function or of an object: address and size, bytes."""

    start: int
    size: int


class Target(NamedTuple):
    """What a pointer in the file refers to: an address of the file, or a name of another library."""

    address: int | None
    name: str


class Elf:
    """An ELF file.

    Raises:
        ValueError: the bytes are no such file.
    """

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise ValueError("no 64-bit little-endian ELF file")
        try:
            self.kind, self.machine = struct.unpack_from("<HH", data, 0x10)
            (table,), (self.flags,) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<I", data, 0x30)
            size, count, names = struct.unpack_from("<HHH", data, 0x3A)
            heads = [struct.unpack_from("<IIQQQQII", data, table + number * size) for number in range(count)]
            texts = data[heads[names][4] :] if heads else b""
            self.sections = [
                Section(text(texts, name), kind, flags, address, length, link, info, data[offset : offset + length])
                if kind != WITHOUT_BYTES
                else Section(text(texts, name), kind, flags, address, length, link, info, b"")
                for name, kind, flags, address, offset, length, link, info in heads
            ]
        except (struct.error, IndexError) as error:
            raise ValueError(f"a damaged ELF file: {error}") from None
        self._loaded = sorted(
            (part for part in self.sections if part.flags & ALLOCATED and part.size and not part.flags & OF_THREADS),
            key=lambda part: part.address,
        )
        self._starts = np.array([part.address for part in self._loaded], np.int64)

    # Symbols ----------------------------------------------------------------------------------------------------------

    def symbol_name(self, table: Section, number: int) -> str:
        """Return the name of a symbol of a table."""
        (offset,) = struct.unpack_from("<I", table.content, number * _SYMBOL.itemsize)
        return text(self.sections[table.link].content, offset)

    def symbols(self, table: Section) -> Any:
        """Return a table of symbols as an array of records."""
        return np.frombuffer(table.content[: len(table.content) // 24 * 24], _SYMBOL)

    @cached_property
    def tables(self) -> list[Section]:
        """The tables of symbols: the full one where the file is not stripped, then the dynamic one."""
        return [part for kind in (SYMBOLS, DYNAMIC_SYMBOLS) for part in self.sections if part.kind == kind]

    def find(self, name: str) -> int | None:
        """Return the address of a function by its name, None where the file defines no such function."""
        wanted = b"\0" + name.encode() + b"\0"
        for table in self.tables:
            texts, symbols, at = b"\0" + self.sections[table.link].content, self.symbols(table), -1
            offsets = []
            # A name may be the end of another's text
            while (at := texts.find(wanted[1:], at + 1)) >= 0:
                offsets.append(at - 1)
            mine = symbols[np.isin(symbols["name"], offsets) & (symbols["at"] != 0)]
            for symbol in mine[np.isin(mine["info"] & 15, (FUNCTION, IFUNC))]:
                return int(symbol["value"])
        return None

    def _placed(self, kinds: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
        """Return (start, size, table, number) of the symbols of some kinds, by address, the largest last."""
        parts = []
        for which, table in enumerate(self.tables):
            symbols = self.symbols(table)
            wanted = np.isin(symbols["info"] & 15, kinds) & (symbols["at"] != 0) & (symbols["at"] < 0xFF00)
            numbers = np.flatnonzero(wanted)
            value, size = (symbols[name][numbers].astype(np.int64) for name in ("value", "size"))
            parts.append((value, size, np.full(numbers.size, which), numbers))
        columns = [np.concatenate([part[n] for part in parts]) if parts else np.zeros(0, np.int64) for n in range(4)]
        order = np.lexsort((columns[1], columns[0]))
        return columns[0][order], columns[1][order], columns[2][order], columns[3][order]

    @cached_property
    def _functions(self) -> tuple[Any, Any, Any, Any]:
        return self._placed((FUNCTION, IFUNC))

    @cached_property
    def _objects(self) -> tuple[Any, Any, Any, Any]:
        return self._placed((OBJECT,))

    def name_at(self, address: int) -> str:
        """Return the name of the function or object that begins at an address, the address where it has no name."""
        for start, _, which, number in (self._functions, self._objects):
            at = int(np.searchsorted(start, address, "right")) - 1
            if at >= 0 and start[at] == address:
                return self.symbol_name(self.tables[int(which[at])], int(number[at]))
        return hex(address)

    def function(self, address: int) -> Span | None:
        """Return the function that covers an address, by its symbol or by the tables of unwinding. None: unknown.

        One that begins there and has no size, as of an assembler, ends where the next begins.
        """
        if span := _covering(self._functions, address) or self._unwound(address):
            return span
        start, part = self._functions[0], self.section(address)
        first, last = (int(np.searchsorted(start, address, side)) for side in ("left", "right"))
        if first == last or part is None:
            return None
        end = part.address + part.size
        return Span(address, min(int(start[last]) if last < len(start) else end, end) - address)

    @cached_property
    def function_starts(self) -> frozenset[int]:
        """The addresses at which functions begin."""
        return frozenset(self._functions[0].tolist()).union(self._frames[0].tolist())

    def object(self, address: int) -> Span | None:
        """Return the object with a symbol that covers an address, or None."""
        return _covering(self._objects, address)

    def next_object(self, address: int) -> int:
        """Return where the next object with a symbol, or the end of the section, lies behind an address."""
        start, part = self._objects[0], self.section(address)
        at, end = int(np.searchsorted(start, address, "right")), part.address + part.size if part else address
        return min(int(start[at]), end) if at < len(start) else end

    # Bytes and pointers -----------------------------------------------------------------------------------------------

    def section(self, address: int) -> Section | None:
        """Return the section that an address lies in when the file is loaded, or None."""
        at = int(np.searchsorted(self._starts, address, "right")) - 1
        part = self._loaded[at] if at >= 0 else None
        return part if part is not None and address < part.address + part.size else None

    def is_code(self, address: int) -> bool:
        """Return whether an address lies in a section of instructions."""
        part = self.section(address)
        return part is not None and bool(part.flags & EXECUTABLE)

    def read(self, span: Span) -> bytes:
        """Return the bytes of a span. Empty where the file has none, as of variables that begin as zero."""
        part = self.section(span.start)
        start = 0 if part is None else span.start - part.address
        return b"" if part is None else part.content[start : start + span.size]

    @cached_property
    def _relocations(self) -> Any:
        tables = [part for part in self.sections if part.kind == RELOCATIONS and part.flags & ALLOCATED]
        whole = [np.frombuffer(part.content[: len(part.content) // 24 * 24], _RELOCATION) for part in tables]
        whole += [self._packed(part) for part in self.sections if part.kind == PACKED]
        every = np.concatenate([np.zeros(0, _RELOCATION), *whole])
        return every[np.argsort(every["offset"], kind="stable")]

    @cached_property
    def _relocated(self) -> Any:
        return np.ascontiguousarray(self._relocations["offset"])

    def _packed(self, part: Section) -> Any:
        """Return relocations of SHT_RELR: pointers whose addend stands in their place."""
        addresses, at = list[int](), 0
        for (word,) in struct.iter_unpack("<Q", part.content):
            if word & 1 == 0:
                addresses.append(word)
                at = word + 8
            else:
                addresses += [at + 8 * bit for bit in range(63) if word >> (bit + 1) & 1]
                at += 8 * 63
        result = np.zeros(len(addresses), _RELOCATION)
        result["offset"], result["kind"] = addresses, 8
        result["addend"] = [
            struct.unpack("<q", self.read(Span(pointer_at, 8)) or bytes(8))[0] for pointer_at in addresses
        ]
        return result

    def pointers(self, span: Span) -> Iterator[tuple[int, Target]]:
        """Yield the pointers that the loader writes into a span: (address, what it refers to)."""
        table = self._relocations
        first, last = np.searchsorted(self._relocated, [span.start, span.start + span.size]).tolist()
        for offset, kind, symbol, addend in table[first:last].tolist():
            yield offset, self._target(kind, symbol, addend)

    def pointer(self, address: int) -> Target | None:
        """Return what the pointer at an address refers to, None where the loader writes none there."""
        return next((target for _, target in self.pointers(Span(address, 1))), None)

    def _target(self, kind: int, symbol: int, addend: int) -> Target:
        if kind in OF_FILE:
            return Target(addend, "")
        dynamic = next(part for part in self.sections if part.kind == DYNAMIC_SYMBOLS)
        entry = self.symbols(dynamic)[symbol]
        name = self.symbol_name(dynamic, symbol)
        if kind in OF_SYMBOL and entry["at"] != 0:
            return Target(int(entry["value"]) + addend, name)
        return Target(None, f"{name}+{addend}" if kind in OF_SYMBOL else f"thread {name}+{addend}")

    # Tables of unwinding, which a stripped file has, too --------------------------------------------------------------

    @cached_property
    def _frames(self) -> tuple[Any, Any]:
        """Return the sorted (function's start, address of its entry) of .eh_frame_hdr. Empty where there is none."""
        none = np.zeros(0, np.int64), np.zeros(0, np.int64)
        part = next((part for part in self.sections if part.name == ".eh_frame_hdr"), None)
        if part is None or part.content[:4] != b"\x01\x1b\x03\x3b":  # what every linker writes
            return none
        (count,) = struct.unpack_from("<I", part.content, 8)
        pairs = np.frombuffer(part.content, "<i4", 2 * count, 12).astype(np.int64).reshape(-1, 2) + part.address
        return pairs[:, 0], pairs[:, 1]

    def _unwound(self, address: int) -> Span | None:
        starts, entries = self._frames
        at = int(np.searchsorted(starts, address, "right")) - 1
        if at < 0:
            return None
        entry = int(entries[at])
        head = self.read(Span(entry + 8, 8))
        if len(head) < 8:
            return None
        begin, size = struct.unpack("<iI", head)
        start = int(starts[at])
        # Addresses as every compiler writes them: four bytes, from their place on
        return Span(start, size) if entry + 8 + begin == start <= address < start + size else None


def _covering(table: tuple[Any, Any, Any, Any], address: int) -> Span | None:
    start, size = table[:2]
    last = int(np.searchsorted(start, address, "right")) - 1
    for at in range(last, max(last - INNER, -1), -1):
        if address < start[at] + size[at]:
            return Span(int(start[at]), int(size[at]))
    return None


def text(data: bytes, start: int) -> str:
    """Return the text that begins there and ends before a zero byte."""
    return data[start : data.index(b"\0", start)].decode("utf-8", "replace")
