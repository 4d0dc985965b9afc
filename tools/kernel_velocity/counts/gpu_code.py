"""Read the GPU code of a build: what of it runs, without line tables, notes, paths and times.

nvcc packs cubins (machine code, as ELF files) and PTX (text, which a newer GPU's driver compiles) into fatbins, some of
them compressed. No tool of CUDA is needed to read them. PTX counts beside a cubin, because another GPU runs it.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from math import prod
from typing import NamedTuple

from kernel_velocity.counts.elf import CUDA, WITHOUT_BYTES, Elf, Section, text

MAGIC = b"\x50\xed\x55\xba"  # of a fatbin
GPU_SECTIONS = (".nv_fatbin", "__nv_relfatbin")  # of a library or an object: they hold fatbins
_PTX, _CUBIN = 1, 2  # kinds of an entry
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_LZ4, _ZSTD = 1 << 13, 1 << 15  # flags of an entry
# The length of a part of a name, which nvcc makes of the file's name, a hash of its path and one of its functions
_OF_A_FILE = re.compile(r"(\d+)(?=_(?:GLOBAL__N|INTERNAL)_)|(?<=__nv_static_)(\d+)(?=_)")
_FIXED = 4  # of .nv.info: an attribute with a payload
_PARAMETERS, _EXTERNS = 0x0A, 0x0F  # EIATTR_PARAM_CBANK and EIATTR_EXTERNS, which name symbols by number
_REGISTERS, _FRAME = 0x2F, 0x11  # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE
_MOST_THREADS, _THREADS = 0x05, 0x10  # EIATTR_MAX_THREADS, EIATTR_REQNTID: of a block, by dimension
_BARRIERS = 0x4C  # EIATTR_NUM_BARRIERS
_ANNOTATIONS, _SPILL = 0x55, 1  # EIATTR_ANNOTATIONS, and the kind of one that marks a spill's store or load
_TOOLKIT, _ANNOTATES = 0x37, 126  # EIATTR_CUDA_API_VERSION, and the first tried whose ptxas annotates (12.3 does not)
_RESERVED, _FIRST_RESERVING = 1024, 90  # bytes that CUDA adds to sections of shared memory, and since which sm_*
_NEW_ABI = 8  # EI_ABIVERSION since CUDA 13, which moved the architecture within e_flags
_ARCHITECTURE = re.compile(rb"-arch (sm_\d+[af]?)\b")  # of the options that ptxas notes
_IS_PTX = re.compile(rb"\A(?!\x7fELF)[^\0]*^\s*\.target\s+sm_", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LINES = re.compile(r"^\s*(?:\.file|\.loc|@@DWARF)\b[^\n]*\n?", re.MULTILINE)
_DEBUG = re.compile(r"\.section\s+\.debug_\w+\s*\{[^}]*\}")
_NUMBERED = re.compile(r"(\$L__BB|__local_depot|__cuda_local_var_)\d+")  # by the function's place in the file
_WORD = re.compile(r"[A-Za-z_$%][\w$]*")
_FUNCTION = re.compile(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)")
_VARIABLE = re.compile(r"([\w$]+)\s*(?:\[[^\]]*\]\s*)*(?:=|;|$)")


class GpuCode:
    """The GPU code of a library or of a file."""

    def __init__(self, content: bytes) -> None:
        """Read fatbins that lie one after another, a cubin or PTX. What is not understood counts as a whole."""
        self._parts: list[Cubin | Ptx] = []
        self._other: list[bytes] = []
        if content.startswith(MAGIC):
            for entry in _entries(content):
                self._add(entry)
        else:
            self._add(_Entry(_PTX if _IS_PTX.search(content) else _CUBIN, 0, content))

    def _add(self, entry: _Entry) -> None:
        with suppress(ValueError, struct.error, IndexError):
            if entry.kind == _PTX:
                self._parts.append(Ptx(entry.content.rstrip(b"\0").decode()))
                return
            if entry.kind == _CUBIN:
                self._parts.append(Cubin(entry.content, entry.target))
                return
        self._other.append(entry.content)

    @property
    def cubins(self) -> list[Cubin]:
        """The machine code, by architecture."""
        return [part for part in self._parts if isinstance(part, Cubin)]

    @property
    def ptx(self) -> list[Ptx]:
        """The text that a driver compiles."""
        return [part for part in self._parts if isinstance(part, Ptx)]

    @cached_property
    def kernels(self) -> frozenset[str]:
        """The names of all kernels and device functions."""
        return frozenset(name for part in self._parts for name in part.names)

    @cached_property
    def entries(self) -> frozenset[str]:
        """The names of the kernels that a host can launch."""
        return frozenset(name for part in self._parts for name in part.entries)

    def of(self, kernel: str) -> bytes:
        """Return what runs when a kernel does, for every architecture."""
        parts = [part.of(kernel) for part in self._parts if kernel in part.names]
        return b"\0".join([*parts, *self._other])

    def whole(self) -> bytes:
        """Return what runs of all kernels, in the order of their names."""
        return b"\0".join(without_file(name).encode() + self.of(name) for name in sorted(self.kernels)) or b"".join(
            self._other
        )


class _Entry(NamedTuple):
    kind: int
    target: int  # architecture, such as 90
    content: bytes


def _entries(content: bytes) -> Iterator[_Entry]:
    """Yield the entries of the fatbins in some bytes, unpacked where this machine can."""
    at = content.find(MAGIC)
    while at >= 0:
        header, size = struct.unpack_from("<HQ", content, at + 6)
        entry_at, end = at + header, at + header + size
        while entry_at + _ENTRY.size <= end:
            kind, _, head, padded, packed, _, _, _, target, _, _, flags, _, unpacked = _ENTRY.unpack_from(
                content, entry_at
            )
            body = content[entry_at + head : entry_at + head + padded]
            if flags & (_LZ4 | _ZSTD):
                body = _unpacked(body[:packed], unpacked, flags)
            yield _Entry(kind, target, body)
            entry_at += head + padded
        at = content.find(MAGIC, end)


def _unpacked(body: bytes, size: int, flags: int) -> bytes:
    """Return the unpacked bytes of an entry, or the packed ones where the system has no library that unpacks them."""
    result = ctypes.create_string_buffer(max(size, 1))
    with suppress(OSError):
        if flags & _ZSTD:
            unpack = ctypes.CDLL("libzstd.so.1").ZSTD_decompress
            unpack.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
            unpack.restype = ctypes.c_size_t
            count = unpack(result, size, body, len(body))
        else:
            count = ctypes.CDLL("liblz4.so.1").LZ4_decompress_safe(body, result, len(body), size)
        if count == size:
            return result.raw[:size]
    return body


def without_file(name: str) -> str:
    """Return a text of names without what nvcc adds to those that are local to a file."""
    parts, at = [], 0
    for length in _OF_A_FILE.finditer(name):
        if length.start() >= at:
            parts.append(name[at : length.start()])
            at = length.end() + int(length[1] or length[2])
    return "".join([*parts, name[at:]])


class Resources(NamedTuple):
    """What a kernel's machine code says that it takes."""

    registers: int  # of a thread
    shared_bytes: int  # of a block, static
    stack_bytes: int  # of a thread
    barriers: int  # of a block
    code_bytes: int
    threads: int | None  # of a block at most, as its launch bounds say. None: it has none


class Cubin:
    """Machine code of one architecture.

    Instructions name constants by their place in a bank, so a module's constants and variables belong to each kernel.
    """

    def __init__(self, content: bytes, target: int) -> None:
        self.content = content
        self._elf = Elf(content)
        if self._elf.machine != CUDA:
            raise ValueError("no cubin")
        self._sections = {part.name: part for part in self._elf.sections}
        self._symbols = self._sections[".symtab"]
        self.names = frozenset(name.removeprefix(".text.") for name in self._sections if name.startswith(".text."))
        self.entries = frozenset(name for name in self.names if f".nv.constant0.{name}" in self._sections)
        self._target = f"{target} {self._elf.flags:x}"

    @property
    def architecture(self) -> str:
        """The architecture, such as "sm_90a". Its letter is in a note of ptxas alone."""
        notes = b"".join(part.content for part in self._elf.sections if part.name.startswith(".note"))
        if match := _ARCHITECTURE.search(notes):
            return match[1].decode()
        is_accelerated = self.content[8] < _NEW_ABI and self._elf.flags & 0x800
        return f"sm_{self._number}{'a' * bool(is_accelerated)}"

    @property
    def _number(self) -> int:
        flags: int = self._elf.flags
        return (flags >> 8 if self.content[8] >= _NEW_ABI else flags) & 0xFF

    def resources(self, kernel: str) -> Resources:
        """Return what a kernel takes.

        Raises:
            LookupError: the cubin does not say how many registers.
        """
        noted = self._noted(kernel)
        (registers,), (frame,) = (
            struct.unpack("<I", noted[_REGISTERS]),
            struct.unpack("<I", noted.get(_FRAME, bytes(4))),
        )
        bounds = noted.get(_THREADS, noted.get(_MOST_THREADS))
        shared, code = self._sections.get(f".nv.shared.{kernel}"), self._sections[f".text.{kernel}"]
        reserved = _RESERVED if self._number >= _FIRST_RESERVING else 0
        return Resources(
            registers=registers,
            shared_bytes=0 if shared is None else shared.size - reserved,
            stack_bytes=frame,
            barriers=noted[_BARRIERS][0] if _BARRIERS in noted else code.flags >> 20 & 0x7F,  # before CUDA 13 there
            code_bytes=code.size,
            threads=None if bounds is None else prod(struct.unpack_from("<3I", bounds)),
        )

    def spills(self, function: str) -> frozenset[int] | None:
        """Return the offsets of the stores and loads of spilled registers. None: the cubin does not say it."""
        noted = self._noted(function)
        content, (toolkit,) = noted.get(_ANNOTATIONS, b""), struct.unpack("<I", noted.get(_TOOLKIT, bytes(4)))
        if toolkit < _ANNOTATES or len(content) % 8:
            return None
        annotations = [*struct.iter_unpack("<II", content)]
        is_all = all(kind == _SPILL for kind, _ in annotations)  # others have other sizes
        return frozenset(offset for _, offset in annotations) if is_all else None

    def _noted(self, function: str) -> dict[int, bytes]:
        """Return the attributes of a function, by number."""
        noted = dict[int, bytes]()
        for part in (f".nv.info.{function}", ".nv.info"):
            for head, payload in _attributes_of(self._sections[part].content if part in self._sections else b""):
                if part != ".nv.info":
                    noted.setdefault(head[1], payload or head[2:])
                elif len(payload) == 8 and self._name(struct.unpack_from("<I", payload)[0]) == function:
                    noted.setdefault(head[1], payload[4:])
        return noted

    def reached(self, kernel: str) -> list[str]:
        """Return a kernel and the functions that it calls, each once."""
        waiting, reached = [kernel], list[str]()
        while waiting:
            if (name := waiting.pop(0)) not in reached:
                reached.append(name)
                others = [self._name(symbol) for _, _, symbol, _ in self._relocations(self._sections[f".text.{name}"])]
                waiting += [other for other in others if other in self.names]
        return reached

    def of(self, kernel: str) -> bytes:
        """Return what runs when a kernel does, and what it names."""
        shared = [
            part for part in self._elf.sections if re.fullmatch(r"\.nv\.(constant\d+|global(\.init)?)", part.name)
        ]
        parts = [self._target.encode()]
        for name in self.reached(kernel):
            for part in self._elf.sections:
                if part.name.endswith(f".{name}") and not part.name.startswith((".rel", ".debug", ".nv.info")):
                    parts += [part.name.removesuffix(name).encode(), *self._content(part)]
            parts += self._attributes(name)
        for part in shared:
            parts += [part.name.encode(), *self._content(part)]
        return b"\0".join(parts)

    def _content(self, part: Section) -> Iterator[bytes]:
        """Yield the bytes of a section and what it refers to."""
        yield str(part.size).encode() if part.kind == WITHOUT_BYTES else part.content
        for offset, kind, symbol, addend in self._relocations(part):
            yield f"{offset} {kind} {without_file(self._name(symbol))} {addend}".encode()

    def _relocations(self, part: Section) -> Iterator[tuple[int, int, int, int]]:
        for prefix, layout in ((".rela", "<QIIq"), (".rel", "<QII")):
            if table := self._sections.get(prefix + part.name):
                whole = table.content[: len(table.content) // struct.calcsize(layout) * struct.calcsize(layout)]
                for offset, kind, symbol, *addend in struct.iter_unpack(layout, whole):
                    yield offset, kind, symbol, sum(addend)

    def _name(self, symbol: int) -> str:
        """Return the name of a symbol, of a section's symbol the section's."""
        offset, _, _, section = struct.unpack_from("<IBBH", self._symbols.content, 24 * symbol)
        name = text(self._elf.sections[self._symbols.link].content, offset)
        return name or self._elf.sections[section].name

    def _attributes(self, kernel: str) -> Iterator[bytes]:
        """Yield what .nv.info says of a kernel (registers, stack, launch bounds), without numbers of symbols."""
        if attributes := self._sections.get(f".nv.info.{kernel}"):
            for head, payload in _attributes_of(attributes.content):
                if head[1] == _EXTERNS:
                    yield head + b" ".join(self._name(n).encode() for (n,) in struct.iter_unpack("<I", payload))
                else:
                    yield head + payload[4 * (head[1] == _PARAMETERS) :]
        if shared := self._sections.get(".nv.info"):
            for head, payload in _attributes_of(shared.content):
                if len(payload) == 8 and self._name(struct.unpack_from("<I", payload)[0]) == kernel:
                    yield head + payload[4:]


def _attributes_of(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (format and attribute, payload) of a section .nv.info."""
    at = 0
    while at + 4 <= len(content):
        size = struct.unpack_from("<H", content, at + 2)[0] if content[at] == _FIXED else 0
        yield content[at : at + 2 + 2 * (content[at] != _FIXED)], content[at + 4 : at + 4 + size]
        at += 4 + size


class Ptx:
    """PTX: a function with what it names, without comments and lines."""

    def __init__(self, ptx: str) -> None:
        self.content = ptx
        code = _NUMBERED.sub(r"\1", _DEBUG.sub("", _LINES.sub("", _COMMENT.sub("", ptx))))
        heads = re.findall(r"^\s*\.(?:version|target|address_size)\b.*$", code, re.MULTILINE)
        self._head = " ".join(" ".join(heads).split())
        rest = re.sub(r"^\s*\.(?:version|target|address_size)\b.*$", "", code, flags=re.MULTILINE)
        self._definitions: dict[str, list[str]] = {}
        self.names, self.entries = frozenset[str](), frozenset[str]()
        for definition in _top_level(rest):
            match = _FUNCTION.search(definition) or _VARIABLE.search(definition)
            self._definitions.setdefault(match[1] if match else "", []).append(" ".join(definition.split()))
            if match and match.re is _FUNCTION:
                self.names |= {match[1]}
                self.entries |= {match[1]} if ".entry" in definition else set()

    def of(self, kernel: str) -> bytes:
        """Return the text of a kernel, and of what it names."""
        parts, waiting, reached = [self._head, *self._definitions.get("", ())], [kernel], set[str]()
        while waiting:
            if (name := waiting.pop(0)) not in reached:
                reached.add(name)
                for definition in self._definitions[name]:
                    parts.append(definition)
                    waiting += [word for word in dict.fromkeys(_WORD.findall(definition)) if word in self._definitions]
        return without_file("\n".join(parts)).encode()


def _top_level(code: str) -> Iterator[str]:
    """Yield the functions and variables of PTX."""
    depth = start = 0
    for mark in re.finditer(r"[{};]", code):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        is_end = mark[0] == ";" or (mark[0] == "}" and not code[mark.end() :].lstrip().startswith(";"))
        if depth == 0 and is_end:
            yield code[start : mark.end()]
            start = mark.end()
