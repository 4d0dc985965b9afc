"""The command line of `kv compare`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_velocity.compare import inside, settings
from kernel_velocity.compare.settings import PRESETS
from kernel_velocity.harness.stopping import RULES

ALL = "all"
FORMATS = ("json", "markdown", "html", "gbench", "nvbench")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("what", nargs="+", metavar="PROBLEM", help=f"a kernel, a file with a Problem, or {ALL}")
    parser.add_argument(
        "--solution",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="a shared library, or a Python file, with a `solution`; may be repeated",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU")
    parser.add_argument(
        "--sizes",
        "--cases",
        dest="sizes",
        metavar="NAMES",
        help="test cases: names or regular expressions, commas between",
    )
    parser.add_argument("--dtype", help="only test cases of that dtype, such as float32")
    parser.add_argument("--implementations", metavar="NAMES", help="names or regular expressions, commas between")
    parser.add_argument(
        "--reference", metavar="NAME", help="the implementation that speed-ups are relative to (default: the first)"
    )
    parser.add_argument(
        "--tolerance", help="what is right: 1e-3, rtol=1e-3,atol=1e-5, epsilon; integers: 1 allows off by one"
    )
    parser.add_argument("--threads", type=int, help="of the CPU (default: KV_THREADS, else 1)")
    _add_measuring(parser)
    inside.add_arguments(parser)
    _add_output(parser)


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    measuring = parser.add_argument_group("how it is measured")
    measuring.add_argument("--rounds", type=int, help="how often each takes its turn (default 8)")
    measuring.add_argument("--rule", metavar="NAME", help=f"stopping rule of a round: {', '.join(sorted(RULES))}")
    measuring.add_argument("--warmups", type=int, help="calls before the first sample; a sample is then one call")
    measuring.add_argument(
        "--iters", type=int, help=f"samples of a round, one call each, behind {settings.WARMUPS} warm-ups"
    )
    measuring.add_argument("--preset", metavar="NAME", help=f"a published way of measuring: {', '.join(PRESETS)}")
    measuring.add_argument(
        "--no-roofline", action="store_true", help="no efficiency: the machine's ceilings are neither read nor measured"
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    printed = parser.add_argument_group("what is printed and written")
    printed.add_argument("--stats", action="store_true", help="also mean, std, min, max, p50, p99 of all samples")
    printed.add_argument(
        "--oneline", action="store_true", help="instead of tables a line each: 61us (RSD 0.124; min -41%%; max +182%%)"
    )
    printed.add_argument("--quiet", action="store_true", help="no progress bar, no notes")
    for name in FORMATS:
        printed.add_argument(
            f"--{name}",
            metavar="FILE",
            help="write the comparison in that form; -: to standard output, tables to standard error",
        )
