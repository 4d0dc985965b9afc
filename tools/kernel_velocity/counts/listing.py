"""Machine code as text that commits are compared by: an instruction a line, jumps to labels, no addresses.

    kv_add_mul_exp_float32:
            test rsi,rsi
            jle L1
            ...
    L1:     ret

A listing is stored under the digest of its text, so code that many commits have is stored once.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernel_velocity.counts.elf import X86_64, Elf, Span
from kernel_velocity.documents import contents_of
from kernel_velocity.files import replace_bytes

DIGITS = 32  # of a digest
MOST_BYTES = 8 << 20  # of a text: 16 times the code of our largest kernel
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGITS}}}")
_INDENT = " " * 8
_NAMES = (  # of registers, labels and places of a frame, by what stands for all of their kind
    (re.compile(r"\b(U?R|U?P|B|SB)\d+\b"), r"\1"),  # NVIDIA's
    (re.compile(r"\b([xyz]mm|[kvsxwdqhba])\d+\b"), r"\1"),  # vectors of x86-64, AArch64's, AMD's
    (re.compile(r"\b([vsa])\[\d+:\d+\]"), r"\1"),  # several of AMD's
    (re.compile(r"\br([abcd]x|[sd]i|bp|\d+)\b"), "r64"),
    (re.compile(r"\b(e([abcd]x|[sd]i|bp)|r\d+d)\b"), "r32"),
    (re.compile(r"\b([abcd]x|[sd]i|bp|r\d+w)\b"), "r16"),
    (re.compile(r"\b([abcd][lh]|[sd]il|bpl|r\d+b)\b"), "r8"),
    (re.compile(r"\[(?:rsp|sp)[+,] ?#?(?:0x)?[0-9a-f]+\]"), "[stack]"),  # where a value lies in a frame
    (re.compile(r"^L\d+: *|^ +"), ""),
    (re.compile(r"\bL\d+$"), "L"),
)
_OBJDUMP = re.compile(r"^\s*([0-9a-f]+):\t(.*?)\s*$", re.MULTILINE)
_TARGET = re.compile(r"\b(?:0x)?([0-9a-f]+) <([^>+]+)(\+0x[0-9a-f]+)?>")
_OF_RIP = re.compile(r"\[rip[+-]0x[0-9a-f]+\]")
_COMMENT = re.compile(r"\s+(?:#|//).*")
# What fills a function up to the next place where code begins well
_FILLS = re.compile(r"(?:(?:data16|cs|rex\.W)\s+)*(?:nop\w?\b|xchg\s+ax,ax)")


class Instruction(NamedTuple):
    """An instruction of a function."""

    address: int  # in the function, in bytes or instructions, or in its file
    text: str
    target: int | None = None  # the address that it jumps to, which `text` leaves out


def written(name: str, instructions: Sequence[Instruction]) -> str:
    """Return the listing of a function, with a newline at its end."""
    targets = {instruction.target for instruction in instructions}
    labelled = [instruction.address for instruction in instructions if instruction.address in targets]
    labels = {address: f"L{number}" for number, address in enumerate(labelled, 1)}
    lines = [f"{name}:"]
    for address, text, target in instructions:
        label = f"{labels[address]}:" if address in labels else ""
        goes = "" if target is None else f" {labels.get(target, '?')}"
        lines.append(f"{label:<{len(_INDENT)}}{' '.join(text.split())}{goes}")
    return "\n".join(lines) + "\n"


def alike(line: str) -> str:
    """Return what a line has in common with those that differ only in registers, labels and places of a frame."""
    for names, name in _NAMES:
        line = names.sub(name, line)
    return line


# Code of the CPU ------------------------------------------------------------------------------------------------------


def executed(library: Path, addresses: Iterable[int]) -> str:
    """Return the listing of the functions of a library that hold some addresses, in the order of their names.

    Empty without objdump, and of a library that cannot be read. A function whose beginning and end the library does not
    tell is left out.
    """
    program = shutil.which("objdump")
    try:
        elf = Elf(contents_of(library))
    except (OSError, ValueError):  # too large, or damaged
        return ""
    if program is None:
        return ""
    spans = {span for address in addresses if (span := elf.function(address)) is not None}
    named = sorted((elf.name_at(span.start), span) for span in spans if elf.read(span))
    return "".join(
        written("function" if name.startswith("0x") else name, [*_disassembled(program, library, elf, span)])
        for name, span in named
    )


def _disassembled(program: str, library: Path, elf: Elf, span: Span) -> Iterator[Instruction]:
    ends = (f"--start-address={span.start}", f"--stop-address={span.start + span.size}")
    syntax = ("-M", "intel") if elf.machine == X86_64 else ()
    command = [program, "-d", "-w", "--no-show-raw-insn", *syntax, *ends, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    for address, text in _OBJDUMP.findall(done.stdout):
        if _FILLS.match(text):
            continue
        jump = _TARGET.search(text)
        target = None if jump is None or "#" in text[: jump.start()] else int(jump[1], 16)
        if jump and target is not None and span.start <= target < span.start + span.size:
            yield Instruction(int(address, 16), text[: jump.start()], target)
        else:
            plain = _OF_RIP.sub("[rip]", _COMMENT.sub("", text))
            yield Instruction(int(address, 16), _TARGET.sub(lambda of: of[2] if not of[3] else "elsewhere", plain))


# Stored ---------------------------------------------------------------------------------------------------------------


def store(text: str, folder: Path) -> str:
    """Write a listing into a folder, unless it is there. Return its digest."""
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()[:DIGITS]
    if not path(folder, digest).exists():
        replace_bytes(path(folder, digest), lzma.compress(content))
    return digest


def is_stored(folder: Path, digest: str) -> bool:
    """Return whether there is a file of a digest, which may be any text."""
    return bool(_DIGEST.fullmatch(digest)) and path(folder, digest).is_file()


def read(folder: Path, digest: str) -> str | None:
    """Return the listing of a digest. None: it is not there, or damaged."""
    with suppress(OSError, lzma.LZMAError, UnicodeDecodeError):
        if is_stored(folder, digest):
            content = lzma.LZMADecompressor().decompress(contents_of(path(folder, digest)), MOST_BYTES)
            if hashlib.sha256(content).hexdigest()[:DIGITS] == digest:
                return content.decode()
    return None


def copy(source: Path, target: Path) -> None:
    """Store the sound listings of a folder in another one."""
    for file in sorted(source.glob("*.txt.xz")):
        text = read(source, file.name.partition(".")[0])
        if text is not None:
            store(text, target)


def path(folder: Path, digest: str) -> Path:
    """Return the file of a listing."""
    return folder / f"{digest}.txt.xz"
