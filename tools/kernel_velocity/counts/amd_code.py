"""What a compiler made of a kernel for an AMD GPU: figures of the assembly that LLVM's AMDGPU target writes.

The metadata at its end have registers, spills and scratch memory. `.vgpr_count` includes the accumulators. Shared
memory (LDS) may be 0 there although the kernel uses some, so who launches it must say how much. A comment of LLVM
behind each store and load of a spill says its bytes.
"""

from __future__ import annotations

import re
from collections import Counter

from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.gpu_figures import Compiled, occupied
from kernel_velocity.counts.machine_code import CLASSES, OTHER
from kernel_velocity.names import MIX

_COUNT = re.compile(r"^\s*\.(vgpr_count|sgpr_count|private_segment_fixed_size|group_segment_fixed_size):\s*(\d+)", re.M)
_CODE_BYTES = re.compile(r"^; codeLenInByte = (\d+)", re.MULTILINE)
_SPILLED = re.compile(r";.*?\b(\d+)-byte Folded (?:Spill|Reload)")
_INSTRUCTION = re.compile(r"^\s+([a-z][a-z0-9]*_\w+)\b(.*)")
_LABEL = re.compile(r"^(\.LBB\w+):")
_PADDING = re.compile(r"s_code_end|s_nop")
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


def of_assembly(text: str, architecture: str, kernel: str, threads: int, shared: int) -> Compiled:
    """Return the figures of a kernel.

    Args:
        text: its assembly, with LLVM's comments.
        architecture: such as "gfx942".
        kernel: its name.
        threads: of a block.
        shared: bytes of a block that its launch adds to those in the metadata.

    Raises:
        NotCountedError: the text has no metadata of a kernel.
    """
    counts = {name: int(count) for name, count in _COUNT.findall(text)}
    if "vgpr_count" not in counts:
        raise NotCountedError(f"the assembly of {kernel} for {architecture} has no metadata of a kernel")
    shared += counts.get("group_segment_fixed_size", 0)
    code = _CODE_BYTES.search(text)
    figures = {
        "registers": counts["vgpr_count"],
        "scalar_registers": counts.get("sgpr_count", 0),
        "shared_bytes": shared,
        "stack_bytes": counts.get("private_segment_fixed_size", 0),
        "spill_bytes": sum(map(int, _SPILLED.findall(text))),
        **({"code_bytes": int(code[1])} if code else {}),
    }
    kinds, details, loops = _instructions(text)
    figures |= {name: kinds[name.removesuffix("_instructions")] for name in MIX} | {"loop_instructions": loops}
    held, missing = occupied(architecture, kernel, figures["registers"], threads, shared)
    return Compiled(
        figures=figures | ({} if held is None else {"occupancy": held.warps}),
        missing=missing,
        details=details,
        occupancies={} if held is None else {kernel: str(held)},
    )


def class_of(opcode: str, operands: str = "") -> str:
    """Return the class of an instruction, of `machine_code.CLASSES`."""
    return next((name for name, pattern in _CLASSES.items() if pattern.match(f"{opcode} {operands}")), OTHER)


def _instructions(text: str) -> tuple[Counter[str], Counter[str], int]:
    """Return the instructions by class, those by opcode, and how many are in innermost loops."""
    kinds, details, labels = Counter[str](), Counter[str](), dict[str, int]()
    number, loops = 0, list[range]()
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = number
        instruction = _INSTRUCTION.match(line)
        if instruction is None or _PADDING.match(instruction[1]):
            continue
        opcode, operands = instruction[1], instruction[2].partition(";")[0].strip()
        kind = class_of(opcode, operands)
        kinds[kind] += 1
        details[f"{kind} {opcode}"] += 1
        number += 1
        if opcode.startswith(("s_branch", "s_cbranch")) and operands in labels:
            loops.append(range(labels[operands], number))
    innermost = [
        loop for loop in loops if not any(o != loop and o.start >= loop.start and o.stop <= loop.stop for o in loops)
    ]
    assert set(kinds) <= set(CLASSES)
    return kinds, details, len({at for loop in innermost for at in loop})
