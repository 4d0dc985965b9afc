"""Theoretical occupancy: how many warps a multiprocessor holds at once, and what limits them. Pure.

NVIDIA: the limits of each compute capability are those of the CUDA programming guide ("Technical Specifications per
Compute Capability"), and registers are allocated as `cuda_occupancy.h` of the toolkit does. AMD: limits and granules
are those of the AMDGPU target of LLVM. There a multiprocessor is a compute unit of CDNA, and a work-group processor of
RDNA, and its warps are waves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

KIB = 1024
REGISTERS, SHARED, THREADS, BLOCKS = "registers", "shared memory", "threads", "blocks"  # what can limit warps
RESERVED = 1 * KIB  # bytes of shared memory that CUDA takes of each block, from compute capability 8.0 on


class Limits(NamedTuple):
    """What a multiprocessor has."""

    warps: int
    blocks: int  # of NVIDIA of any size, of AMD those of several warps, as each needs a barrier
    shared: int  # bytes, of all blocks
    shared_of_block: int  # bytes, the most that one may have
    registers: int = 512  # that a lane of one of its parts has, for all of its warps
    parts: int = 4  # schedulers of NVIDIA, SIMDs of AMD, which share warps among them
    granule: int = 8  # registers of a lane, in which they are allocated
    most: int = 255  # registers of a thread
    warp_size: int = 32


def _nvidia(threads: int, blocks: int, shared: int) -> Limits:
    return Limits(threads // 32, blocks, shared * KIB, (shared - 1) * KIB)


LIMITS: Mapping[str, Limits] = {
    "sm_80": _nvidia(2048, 32, 164),
    "sm_86": _nvidia(1536, 16, 100),
    "sm_87": _nvidia(1536, 16, 164),
    "sm_89": _nvidia(1536, 24, 100),
    "sm_90": _nvidia(2048, 32, 228),
    "sm_100": _nvidia(2048, 32, 228),
    "sm_103": _nvidia(2048, 32, 228),
    "sm_110": _nvidia(1536, 24, 228),
    "sm_120": _nvidia(1536, 24, 100),
    "sm_121": _nvidia(1536, 24, 100),
    "gfx90a": Limits(32, 16, 64 * KIB, 64 * KIB, most=512, warp_size=64),  # CDNA2
    "gfx942": Limits(32, 16, 64 * KIB, 64 * KIB, most=512, warp_size=64),  # CDNA3
    "gfx950": Limits(32, 16, 160 * KIB, 160 * KIB, most=512, warp_size=64),  # CDNA4
    "gfx1100": Limits(64, 32, 128 * KIB, 64 * KIB, 1536, granule=24, most=256),  # RDNA3
    "gfx1200": Limits(64, 32, 128 * KIB, 64 * KIB, 1536, granule=24, most=256),  # RDNA4
    "gfx1201": Limits(64, 32, 128 * KIB, 64 * KIB, 1536, granule=24, most=256),
}
_SHARED_GRANULE = {"sm": 128, "gfx": 512}  # bytes


class Occupancy(NamedTuple):
    """How many warps a multiprocessor holds, of how many, and what limits them."""

    warps: int
    most: int
    limits: tuple[str, ...]  # all that do: relieving one of two gains nothing

    def __str__(self) -> str:
        """Return it in words: "48 of 64 warps, limited by registers"."""
        by = f", limited by {' and '.join(self.limits)}" if self.warps < self.most else ""
        return f"{self.warps} of {self.most} warps{by}"


def limits_of(architecture: str) -> Limits | None:
    """Return the limits of an architecture such as "sm_90a" or "gfx942". None: they are not known here."""
    return LIMITS.get(architecture.rstrip("af") if architecture.startswith("sm_") else architecture)


def occupancy(architecture: str, registers: int, threads: int, shared: int) -> Occupancy | None:
    """Return the occupancy of a kernel. None where the limits of the architecture are not known here.

    Args:
        architecture: such as "sm_90a".
        registers: of a thread. Of AMD the vector registers, with the accumulators.
        threads: of a block.
        shared: bytes of a block, static and dynamic.
    """
    limits = limits_of(architecture)
    if limits is None:
        return None
    is_nvidia = architecture.startswith("sm_")
    warps = -(-threads // limits.warp_size)
    used = -(-max(registers, 1) // limits.granule) * limits.granule
    of_a_part = limits.registers // used if registers <= limits.most else 0
    of_all = of_a_part * limits.parts
    by_registers = (of_all if is_nvidia else min(of_all, limits.warps)) // warps
    if is_nvidia and used * (-(-warps // limits.parts) * limits.parts) > limits.registers * limits.parts:
        by_registers = 0  # the launch check of cuda_occupancy.h, which fills all parts alike
    granule = _SHARED_GRANULE["sm" if is_nvidia else "gfx"]
    allocated = -(-(shared + RESERVED * is_nvidia) // granule) * granule
    by_shared = limits.shared // allocated if allocated else limits.warps
    if shared > limits.shared_of_block:
        by_shared = 0
    has_block_limit = is_nvidia or warps > 1
    blocks = {
        REGISTERS: by_registers,
        SHARED: by_shared,
        THREADS: limits.warps // warps,
        BLOCKS: limits.blocks if has_block_limit else limits.warps,
    }
    fewest = min(blocks.values())
    return Occupancy(fewest * warps, limits.warps, tuple(name for name, count in blocks.items() if count == fewest))
