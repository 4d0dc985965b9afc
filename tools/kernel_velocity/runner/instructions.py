"""Read the instructions of functions of x86-64 and AArch64: their bytes without addresses, and what they refer to.

objdump decodes x86-64, whose instructions have no fixed length. It gets bytes alone, so a large library costs no more
than the functions that are asked for. Instructions are hashed as bytes, so another objdump changes no hash.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kernel_velocity.counts.elf import AARCH64, X86_64


class Use(Enum):
    """How an instruction uses what it refers to."""

    BRANCH = "branch"  # runs it
    SLOT = "slot"  # runs what the pointer there refers to
    READ = "read"  # reads or writes `size` bytes
    ADDRESS = "address"  # takes its address
    SWITCH = "switch"  # a table of at least `size` places in the function, 4 bytes each, from the table on


class Reference(NamedTuple):
    """An address that an instruction refers to."""

    use: Use
    address: int
    size: int = 0


@dataclass
class Body:
    """The instructions of a function. `problem`: why they do not tell what runs, as the end of a sentence."""

    code: bytes  # with zeros where an address outside of the function stood
    references: list[Reference] = field(default_factory=list)  # in order
    problem: str | None = None
    has_loop: bool = False  # whether it jumps back


Code = tuple[int, bytes]  # address of a function, and its bytes


class UnreadableError(Exception):
    """Instructions that are not understood. The message is the end of a sentence about their function."""


def read(machine: int, functions: Sequence[Code]) -> list[Body]:
    """Return the bodies of some functions.

    Args:
        machine: e_machine of their file.
    """
    if machine == AARCH64:
        return [_Arm(*function).body() for function in functions]
    if machine != X86_64:
        return [Body(b"", problem=f"is machine code of kind {machine}, which is not read")] * len(functions)
    try:
        return list(_disassembled(functions))
    except UnreadableError as error:
        return [Body(b"", problem=str(error))] * len(functions)


def called(machine: int, functions: Code) -> Iterator[int]:
    """Yield where a function of x86-64 may call or jump to, without decoding it: some of it may be no address."""
    address, code = functions
    for match in _CALL.finditer(code) if machine == X86_64 else ():
        yield address + match.start() + 5 + struct.unpack("<i", match[1])[0]


def slot_of_stub(machine: int, address: int, code: bytes) -> int | None:
    """Return where the pointer lies that a stub at an address jumps through. None: it is no stub."""
    if machine == X86_64:
        at = code[:16].find(b"\xff\x25")
        return address + at + 6 + struct.unpack_from("<i", code, at + 2)[0] if at >= 0 else None
    return _Arm(address, code[:20]).first_slot()


# x86-64 ---------------------------------------------------------------------------------------------------------------

_BASE = 1 << 40  # address of the first byte, so that no target is negative
_GAP = b"\x90" * 16  # after each function: no instruction of one reaches into the next
_LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*?)\s*$", re.MULTILINE)
_CALL = re.compile(rb"(?=[\xe8\xe9](....))", re.DOTALL)
_BRANCH = re.compile(r"(?:(?:bnd|notrack|addr32|data16|rex\S*|[cdefgs]s)\s+)*(call|j\w+|loop\w*|xbegin)\S*\s+(.*)")
_MEMORY = re.compile(r"(?:(\w+) (?:PTR|BCST) )?(?:\w\w:)?\[rip.*# 0x([0-9a-f]+)")
_BYTES = {"BYTE": 1, "WORD": 2, "DWORD": 4, "FWORD": 6, "QWORD": 8, "TBYTE": 10, "XMMWORD": 16, "YMMWORD": 32}
_BYTES["ZMMWORD"] = 64
# Registers that a call leaves alone, with the names of their parts
_LASTING = {"rbx": "rbx|ebx|bx|bl|bh", "rbp": "rbp|ebp|bp|bpl"} | {
    name: f"{name}[dwb]?" for name in ("r12", "r13", "r14", "r15")
}
_ENTRY = re.compile(r"movsxd\s+(\w+),DWORD PTR \[(\w+)\+\w+\*4\]")
_NEAR = 40  # instructions before a jump through a table, among which its index is compared


class Line(NamedTuple):
    """An instruction: address in the file, length, bytes, and objdump's text, with its address in memory if any."""

    address: int
    length: int
    text: str
    memory: int | None


def _disassembled(functions: Sequence[Code]) -> Iterator[Body]:
    """Yield the body of each function.

    Raises:
        UnreadableError: there is no objdump.
    """
    positions, content = [], bytearray()
    for _, code in functions:
        positions.append(_BASE + len(content))
        content += code + _GAP
    decoded = [(int(match[1], 16), match[2]) for match in _LINE.finditer(_objdump(bytes(content)))]
    starts = [start for start, _ in decoded]
    for position, (address, code) in zip(positions, functions, strict=True):
        first, last = bisect_left(starts, position), bisect_left(starts, position + len(code))
        if not (starts[first : first + 1] == [position] and starts[last : last + 1] == [position + len(code)]):
            yield Body(b"", problem="does not end with an instruction")
            continue
        lines = []
        for number in range(first, last):
            start, text = decoded[number]
            memory = _MEMORY.search(text)
            target = None if memory is None else int(memory[2], 16) - position + address
            lines.append(Line(address + start - position, starts[number + 1] - start, text, target))
        is_known = not any("(bad)" in line.text for line in lines)
        lines = [_moved(line, address - position) for line in lines]
        yield (
            _x86(address, code, lines)
            if is_known
            else Body(b"", problem="has an instruction that objdump does not know")
        )


def _moved(line: Line, by: int) -> Line:
    """Return a line with the target of a branch as an address of the file."""
    branch = _BRANCH.match(line.text)
    if branch is None or not branch[2].startswith("0x"):
        return line
    return line._replace(text=f"{line.text[: branch.start(2)]}{int(branch[2].split()[0], 16) + by:#x}")


def _objdump(content: bytes) -> str:
    program = shutil.which("objdump")
    if program is None:
        raise UnreadableError("is not read, because there is no objdump here (binutils)")
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        options = ("-D", "-z", "-w", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--no-show-raw-insn")
        command = [program, *options, f"--adjust-vma={_BASE:#x}", file.name]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise UnreadableError(f"is not read, because objdump failed: {done.stderr.strip()[:80]}")
    return done.stdout


def _x86(start: int, code: bytes, lines: Sequence[Line]) -> Body:
    body, masked = Body(b""), bytearray(code)
    for number, line in enumerate(lines):
        branch, at = _BRANCH.match(line.text), line.address - start
        if line.memory is not None:
            size = _MEMORY.search(line.text)
            width = _BYTES.get(size[1] or "", 0) if size else 0
            use = Use.SLOT if branch else Use.READ if width else Use.ADDRESS
            body.references.append(Reference(use, line.memory, width))
            _mask(masked, at, line.length, line.memory - line.address - line.length)
        elif branch and branch[2].startswith("0x"):
            target = int(branch[2], 16)
            if start <= target <= line.address:
                body.has_loop = True
            if not start <= target < start + len(code):
                body.references.append(Reference(Use.BRANCH, target))
                _mask(masked, at, line.length, target - line.address - line.length)
        elif branch:
            references = list(_through_register(lines, number, branch[1], branch[2]))
            body.references += references
            if not references:
                body.problem = f"goes through a pointer ({' '.join(line.text.split())})"
    body.code = bytes(masked)
    tables = {use.address for use in body.references if use.use is Use.SWITCH}
    body.references = [use for use in body.references if use.use is not Use.ADDRESS or use.address not in tables]
    return body


def _mask(code: bytearray, at: int, length: int, distance: int) -> None:
    """Replace a distance in an instruction by zeros."""
    for layout in ("<i", "<b"):
        try:
            position = code.rfind(struct.pack(layout, distance), at, at + length)
        except struct.error:
            continue
        if position >= 0:
            code[position : position + struct.calcsize(layout)] = bytes(struct.calcsize(layout))
            return


def _through_register(lines: Sequence[Line], number: int, kind: str, register: str) -> Iterator[Reference]:
    """Yield where a call or jump through a register goes, if the function tells."""
    if kind == "jmp" and (table := _switch(lines, number, register)):
        yield table
    elif register in _LASTING:
        yield from _only_values(lines, _LASTING[register])


def _switch(lines: Sequence[Line], number: int, register: str) -> Reference | None:
    """Return the table of a `switch`: its entries are distances from the table, which the jump adds to its address."""
    near = range(number - 1, max(number - _NEAR, -1), -1)
    writer = next((lines[n].text for n in near if re.match(rf"\S+\s+{register}\b", lines[n].text)), "")
    added = re.match(rf"add\s+{register},(\w+)$", writer)
    if added is None:
        return None
    pair = {register, added[1]}
    at = next((n for n in near if (m := _ENTRY.match(lines[n].text)) and {m[1], m[2]} <= pair), None)
    entry = None if at is None else _ENTRY.match(lines[at].text)
    if at is None or entry is None:
        return None
    table = re.compile(rf"lea\s+{entry[2]},\[rip")
    position = next((lines[n].memory for n in range(at, -1, -1) if table.match(lines[n].text)), None)
    if position is None:
        return None
    checked = next((n for n in range(at, max(at - _NEAR, -1), -1) if lines[n].text.startswith("ja ")), 0)
    limits = (re.match(r"cmp\s+.*,(0x[0-9a-f]+)$", lines[n].text) for n in range(checked, max(checked - 4, -1), -1))
    limit = next((int(match[1], 16) for match in limits if match), -1)
    return Reference(Use.SWITCH, position, limit + 1)


def _only_values(lines: Iterable[Line], names: str) -> Iterator[Reference]:
    """Yield the addresses that a register gets in a function. Nothing where it gets anything else, too."""
    written = re.compile(rf"(?!(?:cmp|test|push|call|jmp|bt)\s)[\w.]+\s+(?:{names})(?:,|$)|xchg.*\b(?:{names})\b|leave")
    references = []
    for line in lines:
        if written.match(line.text) and not line.text.startswith("pop"):
            if line.memory is None or not line.text.startswith(("mov ", "lea ")):
                return
            references.append(Reference(Use.SLOT if line.text.startswith("mov ") else Use.BRANCH, line.memory))
    yield from references


# AArch64 --------------------------------------------------------------------------------------------------------------

_PAGE = 4096  # bytes, of ADRP
_CHANGED_BY_CALLS = (*range(19), 30)
_LOOKED_AT = 8  # instructions before a jump through a table


class _Arm:
    """Reads the instructions of a function, four bytes each, and follows the pages that ADRP loads."""

    def __init__(self, start: int, code: bytes) -> None:
        self.start, self.end = start, start + len(code)
        self.words = list(struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4]))
        self.masked = list(self.words)
        self.references: list[Reference] = []
        self.pages: dict[int, tuple[int, int]] = {}  # register -> page, place of its ADRP
        self.slots: dict[int, int] = {}  # register -> where it was loaded from
        self.unused: set[int] = set()  # places of ADRP whose page nothing was seen to use
        self.has_loop = False
        self.problem = "does not end with an instruction" if len(code) % 4 else None

    def body(self) -> Body:
        for position in range(len(self.words)):
            self._read(position, self.words[position])
        if self.unused:
            self.problem = "loads a page of addresses whose use is not followed"
        return Body(struct.pack(f"<{len(self.masked)}I", *self.masked), self.references, self.problem, self.has_loop)

    def first_slot(self) -> int | None:
        """Return where the pointer lies that the first jump through one goes through, None where there is none."""
        for position, word in enumerate(self.words):
            self._read(position, word)
            if slots := [reference.address for reference in self.references if reference.use is Use.SLOT]:
                return slots[0]
        return None

    def _read(self, position: int, word: int) -> None:
        address = self.start + 4 * position
        if word >> 26 & 0x1F == 0b00101:  # B, BL
            self._branch(position, address + 4 * _signed(word, 26), 0xFC000000)
            if word >> 31:
                self._forget(*_CHANGED_BY_CALLS)
        elif word >> 24 == 0x54 or word >> 25 & 0x3F == 0x1A:  # B.cond, CBZ, CBNZ
            self._branch(position, address + 4 * _signed(word >> 5, 19), 0xFF00001F)
        elif word >> 25 & 0x3F == 0x1B:  # TBZ, TBNZ
            self._branch(position, address + 4 * _signed(word >> 5, 14), 0xFFF8001F)
        elif word & 0xFE000000 == 0xD6000000:  # BR, BLR, RET and the like
            self._indirect(position, word)
        elif word >> 24 & 0x1F == 0x10:  # ADR, ADRP
            self._address(position, address, word)
        elif word & 0x3B000000 == 0x18000000:  # LDR of a literal
            target = address + 4 * _signed(word >> 5, 19)
            self._forget(word & 31)
            self._refer(position, Reference(Use.READ, target, 16 if word >> 26 & 1 else 8), 0xFF00001F)
        else:
            self._rest(position, word)

    def _branch(self, position: int, target: int, rest: int) -> None:
        self.has_loop |= self.start <= target <= self.start + 4 * position
        if not self.start <= target < self.end:
            self._refer(position, Reference(Use.BRANCH, target), rest)

    def _refer(self, position: int, reference: Reference, rest: int) -> None:
        if reference.use is Use.BRANCH or not self.start <= reference.address < self.end:
            self.references.append(reference)
            self.masked[position] &= rest

    def _forget(self, *registers: int) -> None:
        for register in registers:
            self.pages.pop(register, None)
            self.slots.pop(register, None)

    def _address(self, position: int, address: int, word: int) -> None:
        register, distance = word & 31, _signed(word >> 5, 19) << 2 | word >> 29 & 3
        self._forget(register)
        if word >> 31:
            self.pages[register] = (address & -_PAGE) + _PAGE * distance, position
            self.unused.add(position)
        else:
            self._refer(position, Reference(Use.ADDRESS, address + distance), 0x9F00001F)

    def _indirect(self, position: int, word: int) -> None:
        register = word >> 5 & 31
        if word >> 21 & 0xF in (2, 4, 5):  # RET, ERET, DRPS
            return
        if register in self.slots:
            self.references.append(Reference(Use.SLOT, self.slots[register]))
        elif word >> 21 & 0xF != 0 or not self._is_switch(position, register):
            self.problem = f"goes through a pointer ({'blr' if word >> 21 & 1 else 'br'} x{register})"
        if word >> 21 & 1:
            self._forget(*_CHANGED_BY_CALLS)

    def _is_switch(self, position: int, register: int) -> bool:
        """Return whether BR jumps to an address plus an entry of a table. The table's size becomes known."""
        near = self.words[max(position - _LOOKED_AT, 0) : position]
        added = any(word & 0xFF00001F == 0x8B000000 | register for word in near)
        loads = [word for word in near if word & 0x3B200C00 == 0x38200800 and word >> 26 & 1 == 0]
        table = next(
            (n for n in range(len(self.references) - 1, -1, -1) if self.references[n].use is Use.ADDRESS), None
        )
        if not added or not loads or table is None:
            return False
        before = self.words[max(position - _NEAR, 0) : position]
        limits = [word >> 10 & 0xFFF for word in before if word & 0x7FC0001F == 0x7100001F]  # CMP with a number
        if limits:
            size = (limits[-1] + 1) << (loads[-1] >> 30)
            self.references[table] = Reference(Use.READ, self.references[table].address, size)
        return True

    def _rest(self, position: int, word: int) -> None:
        """Read an instruction that is no branch: it may use a page, and changes its first register."""
        page = self.pages.get(word >> 5 & 31)
        is_add, is_offset = word & 0xFFC00000 == 0x91000000, word & 0x3B000000 == 0x39000000
        is_vector, kind, offset = word >> 26 & 1, word >> 22 & 3, word >> 10 & 0xFFF
        width = 16 if is_vector and kind & 2 else 1 << (word >> 30)
        is_store = _is_store(word)
        if word & 0xFFE0FFE0 == 0xAA0003E0:  # MOV of a register
            self._copy(word >> 16 & 31, word & 31)
        elif not is_store:
            self._forget(word & 31)
            if word & 0x3A000000 == 0x28000000:  # a pair of registers
                self._forget(word >> 10 & 31)
        if page is None or not (is_add or is_offset):
            return
        address, adrp = page[0] + offset * (1 if is_add else width), page[1]
        reference = Reference(Use.ADDRESS, address) if is_add else Reference(Use.READ, address, width)
        self.references.append(reference)
        self.masked[position] &= 0xFFC003FF
        self.masked[adrp] &= 0x9F00001F
        self.unused.discard(adrp)
        if is_offset and not is_store and not is_vector and word >> 30 == 3:
            self.slots[word & 31] = address

    def _copy(self, source: int, target: int) -> None:
        page, slot = self.pages.get(source), self.slots.get(source)
        self._forget(target)
        if page is not None:
            self.pages[target] = page
        if slot is not None:
            self.slots[target] = slot


def _is_store(word: int) -> bool:
    """Return whether an instruction writes memory, and so leaves its first register alone."""
    if word & 0x3A000000 == 0x28000000:  # a pair
        return not word >> 22 & 1
    if word & 0x3A000000 == 0x38000000:  # one
        return word >> 22 & 3 == 0 or bool(word >> 26 & 1 and word >> 22 & 3 == 2)
    return False


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)
