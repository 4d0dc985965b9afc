"""Hash what runs of a build that does not describe itself: equal hashes mean equal code.

Such a build gets a build-info.json with the code hash of each kernel. Of a kernel of which the section names functions
(`symbols`), the hash covers what a call of them reaches in their library: instructions, data and GPU kernels, without
addresses and names. A call into another library counts by its name. Where one of the functions has a loop, and none
launches a GPU kernel, the hash covers the address of each modulo 64, too: the same instructions in another cache line
were 32% slower in a real history. The other files of the build are hashed whole, because the library may call them.

Any other kernel is hashed by all files of the build. So is one whose functions go to a place that they do not tell, as
a call through a pointer does. Then build-info.json has the reason (`whole_build`), which the terminal and the commit's
page show. Of a whole library, what is loaded counts, without symbols, notes, debug information and names of files.

Data has a size where a symbol or the instruction gives it, or where it is text. Else all up to the next symbol counts:
so code that did not change may get another hash, and code that did never the same.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kernel_velocity.counts import gpu_code
from kernel_velocity.counts.compiled import INFO_NAME
from kernel_velocity.counts.elf import (
    ALLOCATED,
    CUDA,
    EXECUTABLE,
    MAGIC,
    NOTE,
    OF_THREADS,
    SHARED,
    Elf,
    Span,
    Target,
)
from kernel_velocity.counts.gpu_code import GPU_SECTIONS, GpuCode
from kernel_velocity.files import replace_text
from kernel_velocity.runner import instructions
from kernel_velocity.runner.instructions import Body, Reference, UnreadableError, Use
from kernel_velocity.suite.config import Project
from kernel_velocity.suite.under_test import find_info

SCHEME = "2:"  # begins a hash of this module. Hashes of several schemes are not compared (verdict.history.is_same_code)
WHOLE = "whole_build"  # key of build-info.json: why a kernel with symbols is hashed by the whole build
LINE = 64  # bytes of a cache line, and of the blocks in which processors fetch and decode instructions
NEAR = 64  # bytes before an object: an address there may be meant for the object, as of table[i - 1]
SHORTEST_TEXT = 4  # letters of an aligned text: fewer may be a table of numbers
OF_PATHS = (".dynstr", ".dynamic", ".gnu.hash", ".hash", ".nvFatBinSegment")  # of folders, or follow from the others
# Functions of CUDA's static runtime, which count by name as those of the shared one do
RUNTIME = "libcudart_static_"
_OF_RUNTIME = re.compile(r"_*cuda[A-Z]")
_OF_CUDA = re.compile(r"_*cu(?:[A-Z]|da|dnn|blas)")
_REGISTERS = b"named __cudaRegisterFunction"
_HASH_OF_A_FILE = re.compile(rb"(?<=_)[0-9a-f]{8}(?=_\d+_\w+_cu_)")  # nvcc's, in names of kernels that are local
_DERIVED = re.compile(r"\.dist-info/RECORD$")  # hashes of the other files


def write_code_hashes(build: Path, project: Project, kernels: Iterable[str]) -> None:
    """Write a build-info.json with the code hashes of kernels, unless the build has one."""
    if find_info(build) is None:
        reader = _Build(build)
        entries: dict[str, dict[str, str]] = {}
        for kernel in kernels:
            try:
                entries[kernel] = {"code_hash": SCHEME + reader.of_symbols(project.symbols_of(kernel))}
            except UnreadableError as error:
                entries[kernel] = {"code_hash": SCHEME + reader.of_files(), WHOLE: str(error)}
        replace_text(build / INFO_NAME, json.dumps({"kernels": entries}, indent=1))


def reasons_of(info: Mapping[str, object]) -> dict[str, str]:
    """Return why kernels of a build-info.json are hashed by the whole build, although the section names functions."""
    kernels = info.get("kernels")
    entries = kernels.items() if isinstance(kernels, Mapping) else ()
    reasons = {name: entry.get(WHOLE) for name, entry in entries if isinstance(entry, Mapping)}
    return {name: why for name, why in reasons.items() if isinstance(why, str)}


def notes(info: Mapping[str, object]) -> Iterator[str]:
    """Yield the same as lines for a terminal."""
    for kernel, why in reasons_of(info).items():
        yield f"the code hash of {kernel} covers the whole build: {why}"


def placement(build: Path) -> str | None:
    """Return the hash of the machine code in a build's libraries as linked: instructions with all their addresses.

    Equal hashes mean that every function lies in the same place. None: the build has no library (64-bit ELF).
    """
    digest, is_empty = hashlib.sha256(), True
    for path in sorted(build.rglob("*.so*")):
        data = path.read_bytes()
        for part in Elf(data).sections if data.startswith(MAGIC) else ():
            if part.flags & EXECUTABLE:
                is_empty = False
                head = f"{path.relative_to(build).as_posix()}\0{part.address}\0{part.size}\0"
                digest.update(head.encode() + part.content)
    return None if is_empty else digest.hexdigest()


class _Build:
    """Hashes the files of a build. What was read or hashed before is remembered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._libraries: dict[str, _Library] = {}
        self._files: dict[frozenset[str], str] = {}

    def of_files(self, besides: frozenset[str] = frozenset()) -> str:
        """Return the hash of all files, without those that are named."""
        if besides not in self._files:
            digest = hashlib.sha256()
            for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
                name = path.relative_to(self._folder).as_posix()
                if name not in besides and "__pycache__" not in path.parts and not _DERIVED.search(name):
                    content = _content(path)
                    digest.update(f"{name}\0{len(content)}\0".encode() + content)
            self._files[besides] = digest.hexdigest()
        return self._files[besides]

    def of_symbols(self, symbols: Sequence[str]) -> str:
        """Return the hash of functions and of what they reach, without functions that of all files.

        Raises:
            UnreadableError: what they reach is not known.
        """
        digest, used = hashlib.sha256(), set[str]()
        for symbol in symbols:
            library, _, name = symbol.partition(":")
            try:
                if library not in self._libraries:
                    self._libraries[library] = _Library(self._folder / library)
                digest.update(f"{library}\0".encode() + self._libraries[library].reached_by(name))
            except (ValueError, LookupError, struct.error) as error:
                raise UnreadableError(f"{library} is damaged: {error}") from None
            used.add(library)
        others = self.of_files(frozenset(used))
        digest.update(others.encode())
        return digest.hexdigest() if used else others


# Whole files ----------------------------------------------------------------------------------------------------------


def _content(path: Path) -> bytes:
    """Return what runs of a file: of Python its syntax, of ELF files and GPU code as their readers say, else all."""
    data = path.read_bytes()
    try:
        if path.suffix == ".py":
            with warnings.catch_warnings(action="ignore"):
                return ast.dump(ast.parse(data)).encode()
        if data.startswith(gpu_code.MAGIC):
            return GpuCode(data).whole()
        if data.startswith(MAGIC):
            return b"\0".join(_loaded(Elf(data), data))
    except (ValueError, SyntaxError, RecursionError, MemoryError, IndexError, KeyError):
        return data
    return data


def _loaded(elf: Elf, data: bytes) -> Iterator[bytes]:
    """Yield what is loaded of an ELF file, without names of files and folders."""
    if elf.machine == CUDA:
        yield GpuCode(data).whole()
    elif elf.kind != SHARED:
        yield data
    else:
        for part in elf.sections:
            if part.name in GPU_SECTIONS:
                yield GpuCode(part.content).whole()
            elif part.flags & ALLOCATED and part.kind != NOTE and part.name not in OF_PATHS:
                yield f"{part.name} {part.size}".encode()
                yield _HASH_OF_A_FILE.sub(b"", part.content) if part.name == ".rodata" else part.content
        for table in elf.tables:
            if table.flags & ALLOCATED:
                names = (elf.symbol_name(table, number) for number in range(len(elf.symbols(table))))
                yield gpu_code.without_file("\0".join(names)).encode()


# What a function reaches ----------------------------------------------------------------------------------------------


class _Library:
    """A library of a build, or a file of GPU code.

    Raises:
        UnreadableError: it is neither.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UnreadableError(f"the build has no {path.name}")
        self.name, data = path.name, path.read_bytes()
        self.elf: Elf | None = None
        if data.startswith(gpu_code.MAGIC):
            self.gpu = GpuCode(data)
            return
        try:
            elf = Elf(data)
        except ValueError as error:
            raise UnreadableError(f"{self.name}: {error}") from None
        if elf.machine == CUDA:
            self.gpu = GpuCode(data)
            return
        self.elf = elf
        self.gpu = GpuCode(b"".join(part.content for part in elf.sections if part.name in GPU_SECTIONS))
        self.bodies: dict[Span, Body] = {}
        self.launched: dict[int, list[str]] = {}
        if self.gpu.kernels:
            self.launched = self._launched()

    def reached_by(self, name: str) -> bytes:
        """Return the hash of a function, or of a kernel for a GPU, and of what it reaches.

        Raises:
            UnreadableError: there is no such function, or what it reaches is not known.
        """
        if self.elf is None and name in self.gpu.kernels:
            return hashlib.sha256(self.gpu.of(name)).digest()
        address = None if self.elf is None else self.elf.find(name)
        if self.elf is None or address is None:
            raise UnreadableError(f"{self.name} has no function {name}")
        if self.elf.kind != SHARED:
            raise UnreadableError(f"{self.name} is no shared library")
        return _Walk(self, self.elf).hash_from(address)

    def read(self, elf: Elf, spans: Iterable[Span]) -> None:
        """Read the instructions of functions that were not read before, and of those that they seem to call.

        One objdump reads hundreds of functions in the time in which two begin.
        """
        new: dict[Span, bytes] = {}
        waiting = list(spans)
        while waiting:
            if (span := waiting.pop()) not in new and span not in self.bodies:
                new[span] = elf.read(span)
                for target in instructions.called(elf.machine, (span.start, new[span])):
                    waiting += [called for called in [_called(elf, target)] if called]
        if new:
            code = [(span.start, content) for span, content in new.items()]
            self.bodies |= zip(new, instructions.read(elf.machine, code), strict=True)

    def _launched(self) -> dict[int, list[str]]:
        """Return the kernels that each function of the host launches, as the library registers them when it is loaded.

        Empty where that is not understood: then all of the GPU code belongs to each function.
        """
        assert self.elf is not None
        walk = _Walk(self, self.elf, is_lenient=True)
        for part in self.elf.sections:
            for _, target in self.elf.pointers(Span(part.address, part.size)) if part.name == ".init_array" else ():
                if target.address is not None and not self.elf.name_at(target.address).startswith(RUNTIME):
                    with suppress(UnreadableError):
                        walk.follow(target.address)
        is_complete = self.gpu.entries <= {kernel for kernels in walk.registered.values() for kernel in kernels}
        return walk.registered if is_complete else {}


def _slot_of_stub(elf: Elf, address: int) -> int | None:
    """Return where the pointer lies that a stub of the linker jumps through. None: there is no stub."""
    part = elf.section(address)
    if part is None or not part.name.startswith((".plt", ".iplt")):
        return None
    return instructions.slot_of_stub(elf.machine, address, elf.read(Span(address, 20)))


def _called(elf: Elf, address: int) -> Span | None:
    """Return the function that begins at an address, or that a stub there jumps to. None: there is none."""
    if address not in elf.function_starts:
        slot = _slot_of_stub(elf, address)
        target = None if slot is None else elf.pointer(slot)
        address = -1 if target is None or target.address is None else target.address
    return elf.function(address) if address in elf.function_starts else None


class _Walk:
    """Visits what a function reaches, in the order in which it is named, and hashes it."""

    def __init__(self, library: _Library, elf: Elf, *, is_lenient: bool = False) -> None:
        """Make a walk. A lenient one passes over what it does not know, and its hash means nothing."""
        self.library, self.elf, self.is_lenient = library, elf, is_lenient
        self.numbers: dict[object, int] = {}  # what was reached -> its number
        self.waiting: list[Span] = []  # functions
        self.data: list[Span] = []
        self.parts: list[bytes] = []
        self.registered: dict[int, list[str]] = {}
        self.line_offsets: list[int] = []  # of functions in their cache lines
        self.calls_cuda = self.has_threads = self.has_loop = False
        self.kernels: dict[str, None] = {}

    def hash_from(self, address: int) -> bytes:
        self.follow(address)
        gpu = self.library.gpu
        for kernel in self.kernels:
            self.parts.append(gpu.of(kernel))
        if self.calls_cuda and not self.kernels:
            self.parts.append(gpu.whole())
        if self.has_threads:
            self.parts += [part.content for part in self.elf.sections if part.flags & OF_THREADS]
        if self.has_loop and not self.calls_cuda:
            self.parts.append(bytes(self.line_offsets))
        digest = hashlib.sha256()
        for part in self.parts:
            digest.update(f"{len(part)}:".encode() + part)
        return digest.digest()

    def follow(self, address: int) -> None:
        """Visit a function, and all that it reaches.

        Raises:
            UnreadableError: a function of them goes to a place that is not known.
        """
        self.parts.append(self._code(address))
        while self.waiting or self.data:
            functions, self.waiting = self.waiting, []
            self.library.read(self.elf, functions)
            for span in functions:
                self._function(span)
            objects, self.data = self.data, []
            for span in objects:
                self.parts.append(self._object(span))

    def _function(self, span: Span) -> None:
        body, name = self.library.bodies[span], self.elf.name_at(span.start)
        if self._is_of_runtime(name, body):
            self.parts.append(self._named(name))
            return
        if body.problem and not self.is_lenient:
            raise UnreadableError(f"{self.library.name}: {name} {body.problem}")
        if next(self.elf.pointers(span), None):
            raise UnreadableError(f"{self.library.name}: {name} has addresses that the loader writes into it")
        self.line_offsets.append(span.start % LINE)
        self.has_loop |= body.has_loop
        parts = [body.code]
        for number, reference in enumerate(body.references):
            try:
                parts.append(self._reference(span, reference, name))
            except UnreadableError:
                if not self.is_lenient:
                    raise
                continue
            if self._is_registration(reference, parts[-1]):
                self._register([ref.address for ref in body.references[:number] if ref.use is Use.ADDRESS])
        self.parts.append(b"\0".join(parts))
        self.kernels |= dict.fromkeys(self.library.launched.get(span.start, ()))

    def _reference(self, span: Span, reference: Reference, name: str) -> bytes:
        use, address, size = reference
        if use is Use.SLOT:
            target = self._constant(address)
            if target is None:
                raise UnreadableError(f"{self.library.name}: {name} calls through a pointer in memory")
            return self._pointer(target)
        if use is Use.SWITCH:
            return self._switch(span, address, size)
        if self.elf.is_code(address):
            return self._code(address)
        if use is Use.BRANCH:
            raise UnreadableError(f"{self.library.name}: {name} goes to {address:#x}, where no code is")
        return self._memory(address, size, name)

    # Code -------------------------------------------------------------------------------------------------------------

    def _code(self, address: int) -> bytes:
        """Return what stands for a place in code: the function's number and the place in it, or a name."""
        if (slot := _slot_of_stub(self.elf, address)) is not None:
            target = self.elf.pointer(slot)
            if target is None:
                raise UnreadableError(f"{self.library.name}: the stub at {address:#x} is not understood")
            return self._pointer(target)
        span = self.elf.function(address)
        if span is None:
            raise UnreadableError(f"{self.library.name}: nothing tells where the function at {address:#x} ends")
        return self._visit(span, self.waiting) + f"+{address - span.start}".encode()

    def _is_of_runtime(self, name: str, body: Body) -> bool:
        """Return whether a function is one of CUDA's static runtime: no other names what is inside of that."""
        if _OF_RUNTIME.match(name) is None:
            return False
        spans = (self.elf.function(use.address) or self.elf.object(use.address) for use in body.references)
        return any(self.elf.name_at(span.start).startswith(RUNTIME) for span in spans if span)

    def _named(self, name: str) -> bytes:
        self.calls_cuda |= _OF_CUDA.match(name) is not None
        self.has_threads |= name.startswith("thread ")
        return f"named {name}".encode()

    def _pointer(self, target: Target) -> bytes:
        if target.address is None:
            return self._named(target.name)
        if self.elf.is_code(target.address):
            return self._code(target.address)
        return self._memory(target.address, 0, target.name)

    def _visit(self, span: Span, waiting: list[Span]) -> bytes:
        if span not in self.numbers:
            self.numbers[span] = len(self.numbers)
            waiting.append(span)
        return f"number {self.numbers[span]}".encode()

    def _constant(self, slot: int) -> Target | None:
        """Return what a pointer in memory refers to that nothing changes after the library was loaded, else None."""
        part = self.elf.section(slot)
        is_constant = part is not None and part.name.startswith((".got", ".data.rel.ro"))
        return self.elf.pointer(slot) if is_constant else None

    def _switch(self, span: Span, table: int, fewest: int) -> bytes:
        """Return the places that a table of a `switch` names."""
        parts, part = [], self.elf.section(table)
        end = table if part is None else part.address + len(part.content) - 3
        for number, entry_at in enumerate(range(table, end, 4)):
            target = table + struct.unpack_from("<i", self.elf.read(Span(entry_at, 4)))[0]
            is_here = span.start <= target < span.start + span.size
            if number >= fewest and not is_here:
                break
            parts.append(f"{target - span.start}".encode() if is_here else self._code(target))
        return b" ".join(parts)

    def _is_registration(self, reference: Reference, part: bytes) -> bool:
        """Return whether a call registers a kernel: of the shared runtime, or of the static one."""
        is_branch = reference.use is Use.BRANCH
        return _REGISTERS in (
            part.partition(b"+")[0],
            b"named " + self.elf.name_at(reference.address).encode() * is_branch,
        )

    def _register(self, addresses: list[int]) -> None:
        """Note which kernel a function of the host launches: the call that registers it has both addresses."""
        code = [address for address in addresses if self.elf.is_code(address)]
        names = [self._until_zero(address).decode("utf-8", "replace") for address in addresses]
        kernels = [name for name in names if name in self.library.gpu.kernels]
        if not (code and kernels):
            raise UnreadableError(f"{self.library.name}: which function launches which kernel is not understood")
        self.registered.setdefault(code[-1], []).append(kernels[-1])

    # Data -------------------------------------------------------------------------------------------------------------

    def _memory(self, address: int, size: int, name: str) -> bytes:
        """Return what stands for a place in data."""
        part = self.elf.section(address)
        if part is not None and part.name.startswith(".got"):
            if (target := self.elf.pointer(address)) is None:
                raise UnreadableError(f"{self.library.name}: {name} takes the address of its table of addresses")
            return self._pointer(target)
        span = self.elf.object(address)
        is_inside = span is None or span.start != address
        if span is None:
            span = Span(address, size or self._text_size(address) or self.elf.next_object(address) - address)
        result = self._visit(span, self.data) + f"+{address - span.start}".encode()
        after = self.elf.object(self.elf.next_object(address)) if is_inside and not size else None
        if after is not None and after.start - address <= NEAR and not self._text_size(address):
            result += b" " + self._visit(after, self.data)
        return result

    def _until_zero(self, address: int) -> bytes:
        part = self.elf.section(address)
        if part is None:
            return b""
        start = address - part.address
        return part.content[start : max(part.content.find(b"\0", start), start)]

    def _text_size(self, address: int) -> int:
        """Return the size of the text that begins there with its zero byte, 0 where no text does."""
        text = self._until_zero(address)
        is_printed = all(byte >= 32 or byte in b"\t\n\r\x1b" for byte in text)
        try:
            text.decode()
        except UnicodeDecodeError:
            return 0
        is_number = address % 4 == 0 and len(text) < SHORTEST_TEXT
        return len(text) + 1 if text and is_printed and not is_number else 0

    def _object(self, span: Span) -> bytes:
        """Return the bytes of an object, and what its pointers refer to."""
        content = bytearray(self.elf.read(span))
        parts = []
        for address, target in self.elf.pointers(span):
            at = address - span.start
            content[at : at + 8] = bytes(len(content[at : at + 8]))
            parts.append(f"{at}".encode() + b" " + self._pointer(target))
        return b"\0".join([f"{span.size}".encode(), bytes(content), *parts])
