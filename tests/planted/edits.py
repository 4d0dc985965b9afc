"""What the commits of a planted history do to matmul's real CPU code: edits of the text of float32_blocks_cpu.h.

How slow the planted kernel is, is said by one number: of every 256 steps along a panel, it does so many again, and
throws their result away. They are the same multiplications with the same data, already in the caches, as those that
count: their share of the time is about their share of the steps on every machine, and no clock is slept away.
The number hides from the compiler: another number is another constant in one instruction, and no other byte of the
code moves. So a slower commit is slower by its work alone, not by how its loops happen to be aligned.
"""

from __future__ import annotations

import re
from collections.abc import Callable

STEPS = 256  # of a panel: DEPTH of float32_blocks_cpu.h

# What else a product of 256 x 256 x 256 costs (packing, the tiles' way from and to C, the call), in steps of a panel.
# Measured (one core with AVX2, fastest of 3000 calls in turns): shares 37, 47 and 81 take 412.4, 427.7 and 470.0 us, so
# 1.29 us a step. At 128 the rest weighs more.
REST = 27

AGAIN = """
// Does the first steps of a panel again, for nothing.
template <int HEIGHT, class Rows>
void multiply_again(const Rows& a, const float* b, int64_t depth) {
    int64_t share = SHARE;        // of 256 steps
    asm("" : "+r"(share));  // the compiler does not see the number
    Floats sums[HEIGHT][VECTORS] = {}, thrown[HEIGHT][VECTORS];
    multiply_panels(a, b, depth * share / 256, sums);
#pragma GCC unroll 12
    for (int i = 0; i < HEIGHT; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; ++v) thrown[i][v] = sums[i][v];
    asm volatile("" : : "m"(thrown));  // nor that nobody wants them
}
"""
_TILE = "\n// Adds one tile of the product to C or,"
_SUMS = "    Floats sums[HEIGHT][VECTORS] = {};\n    multiply_panels(a, b, depth, sums);\n"


class AnchorError(ValueError):
    """The text that an edit hangs on does not occur as often in the source as it should."""


def replaced(text: str, old: str, new: str) -> str:
    """Return the text with the one occurrence of `old` replaced.

    Raises:
        AnchorError: `old` does not occur exactly once. The real source has changed, and the edit must follow.
    """
    if (count := text.count(old)) != 1:
        raise AnchorError(f"wanted once in the source of the kernel, found {count} times: {old!r}; adapt {__name__}")
    return text.replace(old, new)


def replaced_number(text: str, before: str, change: Callable[[int], int]) -> str:
    """Return the text with the number between the one occurrence of `before` and a semicolon changed.

    Raises:
        AnchorError: there is no such number, or there are several.
    """
    result = re.findall(rf"{re.escape(before)}(\d+);", text)
    number = int(result[0]) if result else 0
    return replaced(text, f"{before}{number};", f"{before}{change(number)};")


def planted(source: str, share: int) -> str:
    """Return the code so that it does `share` of every 256 steps again."""
    text = replaced(source, _TILE, AGAIN.replace("SHARE", str(share)) + _TILE)
    return replaced(text, _SUMS, f"    multiply_again<HEIGHT>(a, b, depth);\n{_SUMS}")


def with_share(text: str, share: int) -> str:
    """Return planted code with another share."""
    return replaced_number(text, "share = ", lambda _: share)


def with_wider_blocks(text: str) -> str:
    """Return the code with another constant in its code, which no test case is large enough to feel."""
    return replaced_number(text, "BLOCK_COLUMNS = ", lambda columns: columns + 1024)


def renamed(text: str) -> str:
    """Return the code with another name of an inner function, and a comment more: the same machine code."""
    if "add_tile" not in text:
        raise AnchorError(f"the kernel has no add_tile any more; adapt {__name__}")
    return text.replace("// Adds one tile", "// Tiles do not share elements.\n// Adds one tile").replace(
        "add_tile", "accumulate_tile"
    )


def unbuildable(text: str) -> str:
    """Return the code without a semicolon that it needs."""
    return replaced(text, "std::min(DEPTH, k);", "std::min(DEPTH, k)")


def wrong(text: str) -> str:
    """Return code that forgets the last step of every panel."""
    return replaced(text, _SUMS, _SUMS.replace("depth", "depth - 1"))


def factor(before: int, after: int) -> float:
    """Return how many times slower a product of 256 x 256 x 256 gets from one share to another."""
    return (REST + STEPS + after) / (REST + STEPS + before)
