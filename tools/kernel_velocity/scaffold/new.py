"""``kv new my_op``: the files of a new kernel, which `make test` and `kv track` see at once.

Until its native code is written the kernel is measured as `eager` and `compile`, and `native` is n/a.
"""

from __future__ import annotations

import argparse
import builtins
import keyword
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.scaffold import files, public
from kernel_velocity.suite import config

LONGEST = 24  # characters of a name: so that what is generated stays within its columns
# Names that mean something else in `kernels`, `benchmarks` or a series' name.
RESERVED = {
    "device": "series of that name are the machine's ceilings",
    "kernels": "it is the package",
    "benchmarks": "it is the package",
    "kv": "the generated code uses this name",
    "build_info": "kernels.build_info is a function",
    "cpu_isa": "kernels.cpu_isa is a function",
    "cuda_status": "kernels.cuda_status is a function",
    "import_module": "kernels imports a function of that name",
    "pkgutil": "kernels imports a module of that name",
    "annotations": "Python's own name in a module",
    **dict.fromkeys(("bind", "torch", "ctypes", "partial", "math"), "the generated code uses this name"),
}
CLASSES = frozenset({"Any", "Cpu", "Cuda", "Path"})  # what the generated modules have; `cpu_` makes Cpu, too


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", help="the kernel's name: lower-case letters, digits and _")
    parser.add_argument(
        "--problem",
        metavar="FILE",
        help="track a public problem: its file (docs/how-to/problem-files.md), or FILE:CLASS",
    )
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def run(args: argparse.Namespace, out: TextIO, _err: TextIO) -> int:
    """Write the files, all or none, and print the next steps."""
    root: Path = args.root
    config.check(root)
    check_name(args.name)
    if args.problem is None:
        texts, notes = files.files(root, args.name)
    else:
        texts, notes = public.files(root, args.name, args.problem)
    _check_free(root, args.name, texts)
    write_all(root, texts)
    for path in texts:
        print(path.as_posix(), file=out)
    for note in notes:
        print(f"note: {note}", file=out)
    benchmark, folder = next(iter(texts)), next(path.parent for path in texts if path.suffix == ".cpp")
    first = "" if args.problem else f"say what it computes ({benchmark}), "
    if files.has_package(root):
        last = f"name its devices (SUPPORTS in {folder}/__init__.py); then make test, commit, make track."
    else:
        last = "let the build make its library; then commit, kv track."
    print(f"Now {first}write it ({folder}/{args.name}.cpp, {args.name}.cu), and {last}", file=out)
    return 0


def check_name(name: str) -> None:
    """Check a kernel's name.

    Raises:
        UsageError: it is no identifier in lower case, or means something else already.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or len(name) > LONGEST:
        raise UsageError(
            f"{name!r} cannot be a kernel's name; wanted a letter, then letters, digits and _, in lower case, "
            f"{LONGEST} at most, such as my_op"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or hasattr(builtins, name):
        raise UsageError(f"{name!r} is Python's own name; call the kernel something else, such as my_{name}")
    if name.startswith("test"):
        raise UsageError(f"{name!r} would be taken for a test; call the kernel something else, such as my_{name}")
    reason = RESERVED.get(name)
    if files.class_name(name) in CLASSES:
        reason = "its class would be called like one of the suite's own"
    if reason is not None:
        raise UsageError(f"{name!r} is taken: {reason}; call the kernel something else, such as my_{name}")


def _check_free(root: Path, name: str, texts: Mapping[Path, str]) -> None:
    existing = [path for path in (Path("kernels", name), Path("benchmarks", name), *texts) if (root / path).exists()]
    if existing:
        raise UsageError(f"{name}: {existing[0].as_posix()} exists; remove it, or call the kernel something else")


def write_all(root: Path, texts: Mapping[Path, str]) -> None:
    """Write files below a folder, all or, when one cannot be written, none."""
    folders = [root / path.parent for path in texts if not (root / path.parent).exists()]
    written: list[Path] = []
    try:
        for path, text in texts.items():
            replace_text(root / path, text)
            written.append(root / path)
    except BaseException:
        for path in written:
            path.unlink()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        raise
