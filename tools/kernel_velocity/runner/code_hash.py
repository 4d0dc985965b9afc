"""Describe a build that does not describe itself: the code hash of each kernel, in build-info.json.

A kernel of which the section names functions (`symbols`) is hashed by their machine code: the instructions of each
function, and of those of the library that it reaches, without addresses. The hash covers the address modulo 64, too.
The same instructions in another cache line were 32% slower in a real history. Data and GPU code are hashed for the
whole library, because instructions refer to them by address. The other files of the build are hashed whole, because
the library may call them.

Any other kernel is hashed by all files of the build. So is one whose library objdump cannot read, and one that calls or
jumps through a pointer: what it reaches is not known.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
import subprocess
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity.config import Project
from kernel_velocity.files import replace_text
from kernel_velocity.harness.under_test import INFO_NAME, find_info

LINE = 64  # bytes of a cache line, and of the blocks in which processors fetch and decode instructions
DATA = (".rodata", ".data", ".tdata", ".data.rel.ro", ".nv_fatbin")
_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\s*(.*)$")
_TARGET = re.compile(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>")
_BY_POINTER = re.compile(r"\b(?:call|jmp)\w*\s+\*|^(?:blra?|bra?)\w*\s", re.MULTILINE)  # x86-64, AArch64
ELF_64_LITTLE = b"\x7fELF\x02\x01"
EXECUTABLE = 4  # SHF_EXECINSTR
STUB = "@plt"  # ends the name of a stub that jumps to a function of another library
# What moves with the layout: the address before a target's name, an offset from the instruction, objdump's comment.
_ADDRESS = re.compile(r"\b(?:0x)?[0-9a-f]+ (?=<)|-?0x[0-9a-f]+(?=\(%rip\))|\s*#.*$")


@dataclass(frozen=True)
class Function:
    """A function of a library: instructions without addresses, the functions that it names, its place in a line."""

    code: str
    names: frozenset[str]
    offset: int  # address modulo LINE, bytes


def write(build: Path, project: Project, kernels: Iterable[str]) -> None:
    """Write a build-info.json with the code hashes of kernels, unless the build has one."""
    if find_info(build) is None:
        whole = _of_files(build)
        hashes = {kernel: _of_symbols(build, project.symbols_of(kernel)) or whole for kernel in kernels}
        info = {"kernels": {kernel: {"code_hash": text} for kernel, text in hashes.items()}}
        replace_text(build / INFO_NAME, json.dumps(info, indent=1))


def placement(build: Path) -> str | None:
    """Return the hash of the machine code in a build's libraries as linked: instructions with all their addresses.

    Equal hashes mean that every function lies in the same place. None: the build has no library (64-bit ELF).
    """
    digest, is_empty = hashlib.sha256(), True
    for path in sorted(build.rglob("*.so*")):
        data = path.read_bytes()
        for address, code in _executable(data) if data.startswith(ELF_64_LITTLE) else ():
            is_empty = False
            digest.update(f"{path.relative_to(build).as_posix()}\0{address}\0{len(code)}\0".encode() + code)
    return None if is_empty else digest.hexdigest()


def _executable(library: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (address, bytes) of the sections of an ELF library that hold instructions."""
    (table,), (size, count) = struct.unpack_from("<Q", library, 0x28), struct.unpack_from("<HH", library, 0x3A)
    for number in range(count):
        _, _, flags, address, offset, length = struct.unpack_from("<IIQQQQ", library, table + number * size)
        if flags & EXECUTABLE:
            yield address, library[offset : offset + length]


def missing_symbols(build: Path, project: Project) -> list[str]:
    """Return the symbols of the section that no library of a build has, as "library:function"."""
    return [
        symbol
        for kernel in project.kernels
        for symbol in project.symbols_of(kernel)
        if (functions := _functions(build, symbol)) is not None and symbol.partition(":")[2] not in functions
    ]


def _of_files(build: Path, besides: Container[str] = ()) -> str:
    """Return the hash of all files of a build, without those that are named."""
    digest = hashlib.sha256()
    for path in sorted(path for path in build.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        name = path.relative_to(build).as_posix()
        if name not in besides:
            digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _of_symbols(build: Path, symbols: Iterable[str]) -> str | None:
    """Return the hash of functions and of what they reach. None without symbols, or where that is not known."""
    digest = hashlib.sha256()
    used = set()
    for symbol in symbols:
        library, _, name = symbol.partition(":")
        functions = _functions(build, symbol)
        if functions is None or name not in functions:
            return None
        reached, waiting = set[str](), [name]
        while waiting:
            if (current := waiting.pop()) not in reached:
                reached.add(current)
                waiting += functions[current].names & functions.keys()
        for current in sorted(reached):
            if not current.endswith(STUB) and _BY_POINTER.search(functions[current].code):
                return None
            digest.update(f"{library}:{current} {functions[current].offset}\n{functions[current].code}\n".encode())
        used.add(library)
    for library in sorted(used):
        digest.update(_data(build / library))
    digest.update(_of_files(build, besides=used).encode())
    return digest.hexdigest() if used else None


def _functions(build: Path, symbol: str) -> dict[str, Function] | None:
    """Return the functions of a symbol's library by name. None where the build has no such library, or no objdump."""
    path = build / symbol.partition(":")[0]
    text = _objdump("-d", "--no-show-raw-insn", "--wide", str(path)) if path.is_file() else None
    if text is None:
        return None
    functions: dict[str, Function] = {}
    for block in text.split("\n\n"):
        head, _, body = block.strip("\n").partition("\n")
        if match := _FUNCTION.match(head):
            lines = [parsed[1] for line in body.splitlines() if (parsed := _INSTRUCTION.match(line))]
            names = frozenset(name for line in lines for name in _TARGET.findall(line))
            code = "\n".join(_ADDRESS.sub("", line).strip() for line in lines)
            functions[match[2]] = Function(code, names, int(match[1], 16) % LINE)
    return functions


def _data(library: Path) -> bytes:
    """Return the data and the GPU code of a library, without addresses. Empty where it has none."""
    options = [option for name in DATA for option in ("-j", name)]
    text = _objdump("-s", *options, str(library)) or ""  # it fails where a library has none of the sections
    return "\n".join(line[line.find(" ", 1) :] for line in text.splitlines() if line.startswith(" ")).encode()


def _objdump(*args: str) -> str | None:
    """Return the output of objdump, None where it is missing or cannot read the file."""
    program = shutil.which("objdump")
    if program is None:
        return None
    done = subprocess.run([program, *args], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout if done.returncode == 0 else None
