"""What vendors say that well-known GPUs can do: dense peaks and memory bandwidth, each with its source. Pure.

A measured ceiling far below is a machine that was busy, capped or throttled, or a product that does not reach the
silicon; one above is an error. Figures that the vendor gives with 2:4 sparsity alone are halved, which is how sparsity
is defined. float16 and bfloat16 are those with float32 accumulation, and float64 that of the tensor cores where there
are such: that is what `torch.matmul` runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_T, _G, _MIB = 1e12, 1e9, 1 << 20
_A100 = "NVIDIA A100 Tensor Core GPU datasheet, 2021"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet, 2023, sparse figures halved"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet, 2024, sparse figures halved"
_L4 = "NVIDIA L4 Tensor Core GPU datasheet, 2023, sparse figures halved"
_ADA = "NVIDIA Ada GPU Architecture whitepaper, 2022, appendix A"


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """A GPU's figures by the names of `device_figures.UNITS` (B/s, FLOP/s, B), and where they stand."""

    source: str
    figures: Mapping[str, float]


def _figures(bandwidth: float, peaks: Mapping[str, float], l2: int) -> dict[str, float]:
    return {
        **{f"dram_{kind}_bandwidth": bandwidth for kind in ("copy", "read", "triad")},
        **{f"peak_{dtype}": value for dtype, value in peaks.items()},
        "l2_size": l2 * _MIB,
    }


_A100_PEAKS = {
    "float64": 19.5 * _T,
    "float32": 19.5 * _T,
    "tf32": 156 * _T,
    "float16": 312 * _T,
    "bfloat16": 312 * _T,
    "int8": 624 * _T,
}
_HOPPER_SXM_PEAKS = {
    "float64": 67 * _T,
    "float32": 67 * _T,
    "tf32": 989 / 2 * _T,
    "float16": 1979 / 2 * _T,
    "bfloat16": 1979 / 2 * _T,
    "int8": 3958 / 2 * _T,
}
_H100_PCIE_PEAKS = {
    "float64": 51 * _T,
    "float32": 51 * _T,
    "tf32": 756 / 2 * _T,
    "float16": 1513 / 2 * _T,
    "bfloat16": 1513 / 2 * _T,
    "int8": 3026 / 2 * _T,
}
_L4_PEAKS = {
    "float32": 30.3 * _T,
    "tf32": 120 / 2 * _T,
    "float16": 242 / 2 * _T,
    "bfloat16": 242 / 2 * _T,
    "int8": 485 / 2 * _T,
}
_4090_PEAKS = {
    "float32": 82.6 * _T,
    "tf32": 82.6 * _T,
    "float16": 165.2 * _T,
    "bfloat16": 165.2 * _T,
    "int8": 660.6 * _T,
}

# The name as the driver gives it -> figures; the first that matches counts. L2 sizes are those of the architectures'
# whitepapers (A100 40 MB, H100 and H200 50 MB, L4 48 MB, RTX 4090 72 MB).
_KNOWN: tuple[tuple[str, Vendor], ...] = (
    (r"\bA100.*SXM.*80GB", Vendor(source=_A100, figures=_figures(2039 * _G, _A100_PEAKS, 40))),
    (r"\bA100.*80GB.*PCIe|\bA100.*PCIE?.*80GB", Vendor(source=_A100, figures=_figures(1935 * _G, _A100_PEAKS, 40))),
    (r"\bA100.*40GB", Vendor(source=_A100, figures=_figures(1555 * _G, _A100_PEAKS, 40))),
    (r"\bH100 PCIe", Vendor(source=_H100, figures=_figures(2000 * _G, _H100_PCIE_PEAKS, 50))),
    (r"\bH100 80GB HBM3|\bH100 SXM", Vendor(source=_H100, figures=_figures(3350 * _G, _HOPPER_SXM_PEAKS, 50))),
    (r"\bH200(?! NVL)", Vendor(source=_H200, figures=_figures(4800 * _G, _HOPPER_SXM_PEAKS, 50))),
    (r"\bL4\b", Vendor(source=_L4, figures=_figures(300 * _G, _L4_PEAKS, 48))),
    (r"RTX 4090(?! (?:D|Laptop))", Vendor(source=_ADA, figures=_figures(1008 * _G, _4090_PEAKS, 72))),
)


def vendor(name: str) -> Vendor | None:
    """Return the vendor's figures of a device, by the name that its driver gives it; None where it is not known.

    Parts of a GPU (MIG) bear its name and have less of everything: of them nothing is known.
    """
    if "MIG" in name:
        return None
    return next((found for pattern, found in _KNOWN if re.search(pattern, name)), None)
