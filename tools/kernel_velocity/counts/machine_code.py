"""What the machine code of a kernel consists of: its instructions by class, as NVIDIA's nvdisasm reads them.

nvdisasm is a program of the toolkit, and of the package nvidia-cuda-nvdisasm. Its output as JSON has the opcode and the
operands of every instruction (16 bytes each). What each opcode is for is in the documentation of CUDA's binary
utilities. Not counted: what fills a function up to 128 bytes (NOP, and the branch to itself before it).

    Note: cuxray 0.6.0 was tried first, on 82 kernels x architectures of CUDA 13.0. Registers, stack and occupancy were
    right. Shared memory was 1 KiB too small on sm_80 and sm_86 (20 of 20 kernels that have some), local arrays counted
    as spills, it has no mix of instructions, it needs cuobjdump, too, and it loads programs from the network unless
    CUXRAY_NO_FETCH is set.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kernel_velocity.counts import listing
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.gpu_code import without_file
from kernel_velocity.counts.listing import Instruction
from kernel_velocity.files import replace_bytes

METHOD = "sass1"  # part of the version of a series. Raise the number with anything below that changes counts
INSTALL = "no nvdisasm: `pip install nvidia-cuda-nvdisasm`, or a CUDA toolkit on PATH"
BYTES = 16  # of an instruction
OTHER = "other"  # moves, constants, shuffles, votes
_CLASSES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "tensor": r"[HIDBQO]MMA|[HIQB]GMMA|UTC[A-Z]*MMA",
        "float64": r"D(ADD|FMA|MUL|SETP|SET|MNMX)",
        "float32": r"U?F(ADD2?|FMA2?|MUL2?|MNMX3?|SEL|SET|SETP|CHK|SWZADD|CMP)(32I)?",
        "float16": r"U?V?H(ADD2|FMA2|MUL2|SET2|SETP2|MNMX2?|MNMX)(_32I|_MMA)?",
        "integer": r"U?V?(I(ADD[23]?|ADD32I|MAD|ABS|DP|DP4A|MNMX3?|MUL|MUL32I|SCADD|SETP|SET|CMP|ADDMNMX)|LEA|LOP[3]?"
        r"|LOP32I|POPC|SH[FLR]|ABSDIFF4?|BF[EI]|BMSK|BREV|FLO|SGXT|PRMT)",
        "conversion": r"U?([FI]2[FI]P?|F2FP|I2FP|[FI]2IP|FRND)",
        "special": r"MUFU",
        "local": r"LDL|STL",
        "shared": r"LDS|STS|LDSM|STSM|ATOMS|LDSLK",
        "async": r"LDGSTS|LDGDEPBAR|UTMA\w+|UBLK\w+|LDTM|STTM|UTCCP|UTCSHIFT|STAS",
        "global": r"LDG|STG|LD|ST|ATOM|ATOMG|RED|REDG|LDGMC|CCTL|CCTLL|CCTLT",
        "barrier": r"BAR|B2R|DEPBAR|SYNCS\w*|MEMBAR|FENCE\w*|ERRBAR|WARPGROUP\w*|ARRIVES|U?CGA\w+|UTCBAR|WARPSYNC"
        r"|NANOSLEEP|ACQBULK|ACQSHMINIT|ENDCOLLECTIVE",
        "branch": r"BRA|BRXU?|JMP|JMXU?|CALL|RET|EXIT|KILL|BPT|BREAK|BSSY|BSYNC|BMOV|RPCMOV|YIELD|RTT",
    }.items()
}
CLASSES = (*_CLASSES, OTHER)
_BY_SUFFIX = (
    "tensor",
    "conversion",
    "special",
    "local",
    "shared",
    "async",
    "global",
)  # width, shape, types, cache hint
_JUMP = re.compile(r"(?:BRA|JMP)\b")
_ADDRESS = re.compile(r"(?:^|,)\s*0x([0-9a-f]+)$")
_IS_COPY = re.compile(
    r"IMAD\.MOV|HFMA2(?:\.MMA)?\b.*? -?RZ,\s*-?RZ,|HFMA2(?:\.MMA)?\b[^,]*,-?RZ,-?RZ,"
)  # of a constant
_WIDTH = re.compile(r"\.(?:[US](8|16)|(64|128|256))\b")


class Mix(NamedTuple):
    """The instructions of a function."""

    classes: Mapping[str, int]  # of CLASSES
    details: Mapping[str, int]  # by opcode, with width, shape or types: "global LDG.128"
    loops: Mapping[str, int]  # the classes of the innermost loops
    local_bytes: Mapping[int, int]  # that a thread moves by a store or load of local memory, by its offset
    code: str  # as listing.py writes it


def of_cubin(content: bytes, cache: Path) -> dict[str, Mix]:
    """Return the instructions of each function of a cubin.

    Args:
        cache: a folder for results.

    Raises:
        NotCountedError: there is no nvdisasm, or it cannot read the cubin: n/a.
    """
    program = nvdisasm()
    key = hashlib.sha256(f"{METHOD}\0{version()}\0".encode() + content).hexdigest()
    path = cache / f"{key}.json.xz"
    with suppress(OSError, ValueError, TypeError, AttributeError, lzma.LZMAError):
        functions = json.loads(lzma.decompress(path.read_bytes()))
        return {
            name: Mix(classes, details, loops, {int(at): count for at, count in local.items()}, code)
            for name, (classes, details, loops, local, code) in functions.items()
        }
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(content)
        file.flush()
        command = [program, "-json", file.name]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    try:
        # Before 13.5 a function that lies within a kernel's section is listed by itself, as "$kernel$function"
        sections: dict[str, list[Mapping[str, str]]] = {}
        for function in sorted(json.loads(done.stdout)[1], key=lambda function: function["start"]):
            name = function["function-name"]
            owner = name.split("$")[1] if name.startswith("$") else name
            sections.setdefault(owner, []).extend(function["sass-instructions"])
        mixes = {name: _mix(name, instructions) for name, instructions in sections.items()}
    except (ValueError, LookupError, TypeError):
        why = " ".join((done.stderr.strip().splitlines() or [f"it ends with status {done.returncode}"])[-1].split())
        raise NotCountedError(f"{program} does not read the machine code: {why}") from None
    replace_bytes(path, lzma.compress(json.dumps(mixes).encode()))
    return mixes


@lru_cache
def nvdisasm() -> str:
    """Return the program.

    Raises:
        NotCountedError: there is none.
    """
    program = next(iter(tools("nvdisasm")), None)
    if program is None:
        raise NotCountedError(INSTALL)
    return program


def tools(name: str) -> list[str]:
    """Return the programs of that name of CUDA toolkits: on PATH, under CUDA_HOME, then of packages."""
    home, packages = os.environ.get("CUDA_HOME"), importlib.util.find_spec("nvidia")
    candidates = [Path(home, "bin", name)] if home else []
    for folder in (packages and packages.submodule_search_locations) or ():
        candidates += sorted(Path(folder).glob(f"c*/bin/{name}"), reverse=True)
    others = [str(path) for path in candidates if os.access(path, os.X_OK)]
    return [path for path in dict.fromkeys([shutil.which(name), *others]) if path]


@lru_cache
def version() -> str:
    """Return the version of nvdisasm, such as "V13.5.37"."""
    done = subprocess.run([nvdisasm(), "--version"], capture_output=True, text=True, errors="replace", check=False)
    match = re.search(r"\bV\d[\d.]*", done.stdout)
    return match[0] if match else "unknown"


def read_by() -> dict[str, str]:
    """Return what reads machine code here, by name: the method and nvdisasm's version. {} without nvdisasm."""
    try:
        return {"code": METHOD, "nvdisasm": version()}
    except NotCountedError:
        return {}


def _mix(name: str, instructions: Sequence[Mapping[str, str]]) -> Mix:
    texts = [(instruction["opcode"], instruction.get("operands", "")) for instruction in instructions]
    loops = [range(target, at + 1) for at, target in _backward(texts)]
    padding = {at for at, (opcode, _) in enumerate(texts) if opcode == "NOP" or range(at, at + 1) in loops}
    loops = [loop for loop in loops if len(loop) > 1]
    looped = innermost(loops)
    classes, details, of_loops = Counter[str](), Counter[str](), Counter[str]()
    local = {}
    for at, (opcode, operands) in enumerate(texts):
        if at in padding:
            continue
        kind = class_of(opcode, operands)
        classes[kind] += 1
        details[_detail(kind, opcode)] += 1
        of_loops[kind] += at in looped
        if kind == "local":
            local[at * BYTES] = _width(opcode)
    code = [_instruction(at, instruction) for at, instruction in enumerate(instructions) if at not in padding]
    text = listing.written(without_file(name), code)
    return Mix(dict(classes), dict(details), {kind: count for kind, count in of_loops.items() if count}, local, text)


def _instruction(at: int, instruction: Mapping[str, Any]) -> Instruction:
    """Return an instruction of nvdisasm's, its jump to an address of the function apart."""
    words = [instruction.get(name, "") for name in ("predicate", "opcode", "operands")]
    goes = _ADDRESS.search(words[2]) if "control-flow" in instruction.get("other-attributes", ()) else None
    if goes is None:
        return Instruction(at, " ".join(words))
    return Instruction(at, " ".join([*words[:2], words[2][: goes.start()]]), int(goes[1], 16) // BYTES)


def _backward(texts: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Yield (number of a jump, number of the instruction it goes to) of those that do not go forward."""
    for at, (opcode, operands) in enumerate(texts):
        address = _ADDRESS.search(operands) if _JUMP.match(opcode) else None
        if address and int(address[1], 16) <= at * BYTES:
            yield at, int(address[1], 16) // BYTES


def innermost(loops: Sequence[range]) -> set[int]:
    """Return the numbers of the instructions in loops that have no other loop inside."""
    return {
        at
        for loop in loops
        if not any(o != loop and o.start >= loop.start and o.stop <= loop.stop for o in loops)
        for at in loop
    }


def class_of(opcode: str, operands: str = "") -> str:
    """Return the class of an instruction, of CLASSES."""
    if _IS_COPY.match(f"{opcode} {operands}"):
        return OTHER
    base = opcode.partition(".")[0]
    return next((name for name, pattern in _CLASSES.items() if pattern.fullmatch(base)), OTHER)


def _detail(kind: str, opcode: str) -> str:
    """Return what an instruction is counted under beside its class."""
    base, *suffixes = opcode.split(".")
    return f"{kind} {'.'.join([base, *(s for s in suffixes if s != 'E')]) if kind in _BY_SUFFIX else base}"


def _width(opcode: str) -> int:
    """Return the bytes that a thread's load or store moves."""
    match = _WIDTH.search(opcode)
    return 4 if match is None else int(match[1] or match[2]) // 8


def total(mixes: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return sums by name."""
    result = Counter[str]()
    for mix in mixes:
        result.update(mix)
    return dict(result)
