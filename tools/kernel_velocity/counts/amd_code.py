"""What a compiler made of kernels for AMD's GPUs: figures of a code object, or of the assembly of LLVM's AMDGPU target.

HIP leaves code objects (.hsaco, .co), bundles of them, and libraries and objects with bundles. Metadata in a code
object and at the end of assembly have registers, scratch memory and what is spilled. `.vgpr_count` includes the
accumulators. Shared memory (LDS) may be 0 there although the kernel uses some, so who launches it must say how much.
Instructions stand in the assembly, with a comment behind each store and load of a spill. Of a code object llvm-objdump
tells them.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from kernel_velocity.counts import listing
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.elf import MAGIC, NOTE, Elf
from kernel_velocity.counts.gpu_figures import Compiled, occupied, readable
from kernel_velocity.counts.listing import Instruction
from kernel_velocity.counts.machine_code import CLASSES, OTHER, innermost
from kernel_velocity.names import MIX

MACHINE = 224  # e_machine
SECTION = ".hip_fatbin"  # of a library or an object: it holds bundles
_BUNDLE, _PACKED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
MAGICS = (_BUNDLE, _PACKED)
_METADATA = 32  # NT_AMDGPU_METADATA
_KERNELS, _TARGET_ID = "amdhsa.kernels", "amdhsa.target"
_ASSEMBLY = re.compile(r"^\s*\.amdgcn_target\s+\"[^\"]*-(gfx[0-9a-f]+)", re.MULTILINE)
_ENTRY = re.compile(r"^  - ", re.MULTILINE)  # of a kernel in the metadata of assembly
_FIELD = re.compile(r"^    \.(\w+):\s*(\S+)$", re.MULTILINE)
_FUNCTION = re.compile(r"; -- Begin function (\S+)\n(.*?)(?=; -- Begin function |\Z)", re.DOTALL)
_UNBOUNDED = 1024  # threads of a block that HIP takes where a kernel has no launch bounds
_CODE_BYTES = re.compile(r"^; codeLenInByte = (\d+)", re.MULTILINE)
_SPILLED = re.compile(r";.*?\b(\d+)-byte Folded (?:Spill|Reload)")
_INSTRUCTION = re.compile(r"^\s+([a-z][a-z0-9]*_\w+)\b(.*)")
_DISASSEMBLED = re.compile(r"^\t(\S.*?)\s*// 0*([0-9A-F]+): [0-9A-F ]+(?:<[^>+]+(?:\+0x([0-9a-f]+))?>)?", re.MULTILINE)
_LABEL = re.compile(r"^(\.LBB\w+):")
_JUMP = re.compile(r"s_c?branch")
_PADDING = re.compile(r"s_code_end|s_nop")
_CALL = re.compile(r"^\s+s_(swappc|call)_b64", re.MULTILINE)
_CLASSES = {  # the first that matches counts
    name: re.compile(pattern)
    for name, pattern in {
        "tensor": r"v_(mfma|smfmac|wmma|swmmac)_",
        "async": r"(buffer|global)_load_lds_|(buffer|global)_load_\w+.*\blds\b|global_load_async|tensor_load",
        "branch": r"s_(c?branch|endpgm|setpc|swappc|getpc|call|trap)",
        "barrier": r"s_(barrier|wait|sleep|delay_alu|sendmsg|setprio)|buffer_(inv|wb|gl)|global_(inv|wb)",
        "shared": r"ds_",
        "local": r"scratch_",
        "global": r"(global|flat|buffer|image)_|s_(buffer_)?load",
        "conversion": r"v_(cvt|frexp|pack_b32)|s_cvt",
        "special": r"[vs](_s)?_(exp|log|rcp|rsq|sqrt|sin|cos)_",
        OTHER: r"[vs]_(mov|cndmask|cselect|read|write|accvgpr|perm|swap|dual_mov|cmov)|s_(nop|clause|inst|prefetch)",
        "float64": r"[vs]_\w+_f64",
        "float32": r"[vs]_\w+_f32",
        "float16": r"[vs]_\w+_b?f16",
        "integer": r"[vs]_",
    }.items()
}


class _Code(NamedTuple):
    """The instructions of a kernel."""

    figures: dict[str, int]
    details: Mapping[str, int]  # their number by opcode
    listing: str  # as listing.py writes it


class AmdKernels(ABC):
    """Kernels of one architecture, as a code object or assembly has them."""

    def __init__(self, architecture: str, kernels: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep what metadata say of kernels, by name: fields without their dot."""
        self.architecture, self._kernels = architecture, kernels
        self.entries = frozenset(kernels)

    def figures(self, kernel: str, threads: int | None, shared: int) -> Compiled:
        """Return the figures of a kernel.

        Args:
            kernel: its name.
            threads: of a block. None: as its launch bounds say.
            shared: bytes of a block that its launch adds to those in the metadata.

        Raises:
            NotCountedError: the metadata do not say what it takes.
        """
        has = self._kernels[kernel]
        if "vgpr_count" not in has:
            raise NotCountedError(f"the metadata of {kernel} for {self.architecture} do not say how many registers")
        figures = {
            "registers": int(has["vgpr_count"]),
            "scalar_registers": int(has.get("sgpr_count", 0)),
            "shared_bytes": shared + int(has.get("group_segment_fixed_size", 0)),
            "stack_bytes": int(has.get("private_segment_fixed_size", 0)),
        }
        bounds = prod(has.get("reqd_workgroup_size", [int(has.get("max_flat_workgroup_size", _UNBOUNDED))]))
        held, missing = occupied(
            self.architecture,
            kernel,
            figures["registers"],
            threads or (bounds if bounds < _UNBOUNDED else None),
            figures["shared_bytes"],
        )
        figures |= {} if held is None else {"occupancy": held.warps}
        of_code = self._of_code(kernel, missing)
        return Compiled(
            figures=figures | of_code.figures,
            missing=missing,
            details=of_code.details,
            occupancies={} if held is None else {kernel: str(held)},
            code=of_code.listing,
        )

    @abstractmethod
    def _of_code(self, kernel: str, missing: dict[str, str]) -> _Code:
        """Return what the instructions tell. Add what is missing."""


class _Assembly(AmdKernels):
    """Assembly, with LLVM's comments."""

    def __init__(self, text: str) -> None:
        match = _ASSEMBLY.search(text)
        if match is None:
            raise ValueError("no assembly of LLVM's for a GPU")
        metadata = text.rpartition(f"{_KERNELS}:")[2]
        kernels = [dict(_FIELD.findall(f"    {entry}")) for entry in _ENTRY.split(metadata)[1:]]
        super().__init__(match[1], {kernel["name"]: kernel for kernel in kernels if "name" in kernel})
        self._functions = dict(_FUNCTION.findall(text))

    def _of_code(self, kernel: str, missing: dict[str, str]) -> _Code:
        text = self._functions.get(kernel, "")
        figures, details, code = _counted(kernel, text, missing)
        figures["spill_bytes"] = sum(map(int, _SPILLED.findall(text)))
        if size := _CODE_BYTES.search(text):
            figures["code_bytes"] = int(size[1])
        return _Code(figures, details, code)


class _CodeObject(AmdKernels):
    """Machine code, as an ELF file."""

    def __init__(self, content: bytes) -> None:
        self._content, self._elf = content, Elf(content)
        metadata = next((of for part in self._elf.sections if part.kind == NOTE for of in _noted(part.content)), None)
        if metadata is None or _TARGET_ID not in metadata:
            raise ValueError("a code object without metadata of version 4 or later (-mcode-object-version)")
        target = re.search(r"gfx[0-9a-f]+", metadata[_TARGET_ID])
        kernels = [{name[1:]: value for name, value in of.items()} for of in metadata.get(_KERNELS, ())]
        super().__init__(target[0] if target else "", {kernel["name"]: kernel for kernel in kernels})

    def _of_code(self, kernel: str, missing: dict[str, str]) -> _Code:
        try:
            figures, details, code = _counted(kernel, self._disassembled(kernel), missing)
        except NotCountedError as error:
            missing |= dict.fromkeys(MIX, str(error))
            figures, details, code = _Code({}, {}, "")
        if self._kernels[kernel].get("vgpr_spill_count"):  # scalar ones go to vector registers
            missing["spill_bytes"] = "a code object does not say which accesses are spills, assembly does"
        else:
            figures["spill_bytes"] = 0
        start = self._elf.find(kernel)
        if start is not None and (span := self._elf.function(start)):
            figures["code_bytes"] = span.size
        return _Code(figures, details, code)

    def _disassembled(self, kernel: str) -> str:
        """Return the instructions of a kernel as assembly, with labels.

        Raises:
            NotCountedError: there is no llvm-objdump, or it does not know all instructions.
        """
        program = _objdump()
        with tempfile.NamedTemporaryFile(suffix=".hsaco") as file:
            file.write(self._content)
            file.flush()
            command = [program, "-d", f"--disassemble-symbols={kernel}", file.name]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        lines = _DISASSEMBLED.findall(done.stdout)
        unknown = sum(text.startswith(".long") for text, *_ in lines)
        if not lines or unknown:
            what = f"{unknown} of {len(lines)} instructions" if lines else "the code"
            why = f"llvm-objdump does not know {what} of {kernel} for {self.architecture}"
            raise NotCountedError(f"{why}: put ROCm's, or that of a newer LLVM, on PATH")
        start = int(lines[0][1], 16)
        jumps = {
            int(address, 16): start + int(offset or "0", 16) for text, address, offset in lines if _JUMP.match(text)
        }
        result = list[str]()
        for text, address, _ in lines:
            at = int(address, 16)
            result += [f".LBB{at:x}:"] if at in jumps.values() else []
            result.append(f"\t{text.split()[0]} .LBB{jumps[at]:x}" if at in jumps else f"\t{text}")
        return "\n".join(result)


def is_assembly(content: bytes) -> bool:
    """Return whether bytes are assembly for a GPU of AMD."""
    return b".amdgcn_target" in content[:4096]


def read(content: bytes) -> Iterator[AmdKernels]:
    """Yield the kernels of a code object, of bundles that lie one after another, or of assembly.

    Raises:
        ValueError: it is damaged, or of a kind that is not read.
    """
    if content.startswith(MAGIC):
        yield _CodeObject(content)
    elif is_assembly(content):
        yield _Assembly(content.decode())
    at = min((at for magic in MAGICS if (at := content.find(magic)) >= 0), default=-1)
    while at >= 0 and not content.startswith(MAGIC):
        if content.startswith(_PACKED, at):
            raise ValueError("a compressed bundle of HIP: build it with --no-offload-compress")
        yield from _unbundled(content, at)
        at = content.find(_BUNDLE, at + 1)


def _unbundled(content: bytes, at: int) -> Iterator[AmdKernels]:
    """Yield the kernels of a bundle that begins there."""
    try:
        (count,) = struct.unpack_from("<Q", content, at + len(_BUNDLE))
        entry = at + len(_BUNDLE) + 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", content, entry)
            code = content[at + offset : at + offset + size]
            entry += 24 + length
            if code.startswith(MAGIC) and Elf(code).machine == MACHINE:
                yield _CodeObject(code)
    except struct.error as error:
        raise ValueError(f"a damaged bundle of HIP: {error}") from None


def _noted(content: bytes) -> Iterator[Any]:
    """Yield the metadata in a section of notes."""
    at = 0
    while at + 12 <= len(content):
        name, size, kind = struct.unpack_from("<III", content, at)
        body = at + 12 + -(-name // 4) * 4
        if kind == _METADATA:
            try:
                yield _unpacked(memoryview(content)[body : body + size], 0)[0]
            except (struct.error, IndexError) as error:
                raise ValueError(f"damaged metadata of a code object: {error}") from None
        at = body + -(-size // 4) * 4


_NUMBERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_SIZES = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}


def _unpacked(data: memoryview, at: int) -> tuple[Any, int]:
    """Return the MessagePack value that begins there, and where it ends (github.com/msgpack/msgpack, spec.md)."""
    kind, at = data[at], at + 1
    if kind <= 0x7F or kind >= 0xE0:
        return kind - 0x100 * (kind >= 0xE0), at
    if kind in {0xC0, 0xC2, 0xC3}:
        return {0xC0: None, 0xC2: False, 0xC3: True}[kind], at
    if kind in _NUMBERS:
        (number,) = struct.unpack_from(_NUMBERS[kind], data, at)
        return number, at + struct.calcsize(_NUMBERS[kind])
    if kind in _SIZES:
        (size,) = struct.unpack_from(_SIZES[kind], data, at)
        at += struct.calcsize(_SIZES[kind])
    elif kind < 0xC0:
        size = kind & (0x1F if kind >= 0xA0 else 0x0F)
    else:
        raise ValueError(f"metadata of a code object have a value of the unknown kind {kind:#x}")
    if kind in {0xD9, 0xDA, 0xDB} or 0xA0 <= kind < 0xC0:
        return bytes(data[at : at + size]).decode(), at + size
    values = []
    for _ in range(size * (2 if kind < 0x90 or kind >= 0xDE else 1)):
        value, at = _unpacked(data, at)
        values.append(value)
    return (dict(zip(values[::2], values[1::2], strict=True)) if kind < 0x90 or kind >= 0xDE else values), at


@lru_cache
def _objdump() -> str:
    """Return the program: ROCm's, or one on PATH.

    Raises:
        NotCountedError: there is none.
    """
    rocm = Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "llvm", "bin", "llvm-objdump")
    program = str(rocm) if os.access(rocm, os.X_OK) else shutil.which("llvm-objdump")
    if program is None:
        raise NotCountedError("no llvm-objdump: ROCm has it, and `apt-get install llvm`")
    return program


def _counted(kernel: str, text: str, missing: dict[str, str]) -> _Code:
    """Return the instructions of a kernel's assembly by class, and by opcode."""
    kinds, details, loops, code = _instructions(text)
    listed = listing.written(kernel, code) if code else ""
    if _CALL.search(text):
        why = f"{readable(kernel)} calls functions, which are not followed in code for AMD's GPUs"
        missing |= dict.fromkeys(MIX, why)
        return _Code({}, {}, listed)
    figures = {name: kinds[name.removesuffix("_instructions")] for name in MIX}
    return _Code(figures | {"loop_instructions": loops}, details, listed)


def class_of(opcode: str, operands: str = "") -> str:
    """Return the class of an instruction, of `machine_code.CLASSES`."""
    return next((name for name, pattern in _CLASSES.items() if pattern.match(f"{opcode} {operands}")), OTHER)


def _instructions(text: str) -> tuple[Counter[str], Counter[str], int, list[Instruction]]:
    """Return the instructions by class, those by opcode, how many are in innermost loops, and themselves."""
    kinds, details, labels = Counter[str](), Counter[str](), dict[str, int]()
    lines = list[tuple[str, str]]()
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(lines)
        instruction = _INSTRUCTION.match(line)
        if instruction is None or _PADDING.match(instruction[1]):
            continue
        opcode, operands = instruction[1], instruction[2].partition(";")[0].strip()
        kind = class_of(opcode, operands)
        kinds[kind] += 1
        details[f"{kind} {opcode}"] += 1
        lines.append((opcode, operands))
    code = [
        Instruction(at, opcode, labels[operands]) if operands in labels else Instruction(at, f"{opcode} {operands}")
        for at, (opcode, operands) in enumerate(lines)
    ]
    loops = [
        range(goes, at + 1) for at, opcode, goes in code if goes is not None and goes <= at and _JUMP.match(opcode)
    ]
    assert set(kinds) <= set(CLASSES)
    return kinds, details, len(innermost(loops)), code
