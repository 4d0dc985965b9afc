"""The files of a kernel for a public problem: a benchmark that refers to the problem's file, and its starter code."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity.problem.problem import Problem
from kernel_velocity.problem.problem_file import DTYPE, dtype_of, load_file, parameters_of, sizes
from kernel_velocity.scaffold.files import kernel_files, native
from kernel_velocity.scaffold.signature import of_problem
from kernel_velocity.suite import config
from kernel_velocity.units import count, memory

COPIES = Path("problems")  # of files from elsewhere, by kernel. Not in the suite, whose modules follow its own rules
# Bytes of inputs and outputs of a case that is tracked on the CPU, too: public cases are made for GPUs.
CPU_BYTES = 256 << 20
NAME = 48  # characters of a case's name


@dataclass(frozen=True)
class TrackedCase:
    """A case that is tracked: our name, the file's, FLOPs and bytes, None where they are unknown."""

    ours: str
    name: str
    flops: int | None
    bytes: int | None


def files(root: Path, name: str, where: str) -> tuple[dict[Path, str], list[str]]:
    """Return the files of a kernel for a public problem by their paths in the repository, and notes for the user.

    The problem's own files are copied, unless they lie in the repository.

    Args:
        root: the repository. name: of the kernel. where: the problem's path, with a class behind a colon.

    Raises:
        ProblemError: the problem does not load. UsageError: an argument is of an unknown type, or a formatter failed.
    """
    path, _, kind = where.partition(":")
    problem = load_file(Path(path), kind or None, "cpu")
    copied, target = _placed(root, name, problem, kind)
    cases, by_device, notes = _cases(problem)
    shown = next(iter(copied), Path(os.path.relpath(problem.files[0], root.resolve()))).as_posix()
    values = {
        "shown": shown,
        "where": target,
        "function": "solution",
        "cases": cases,
        "by_device": by_device,
        "dtype": cases[0].ours.partition("-")[0],
        **native(of_problem(where, parameters_of(problem))),
    }
    texts, more = kernel_files(root, name, "problem_benchmark.py.j2", COPIES / name, values)
    return {**texts, **copied}, [*notes, *more]


def _placed(root: Path, name: str, problem: Problem, kind: str) -> tuple[dict[Path, str], str]:
    """Return the problem's files that are copied, the main one first, and the Python expression of its place."""
    folder = config.suite(root).folder
    above = f"Path(__file__).parents[{len(folder.relative_to(root.resolve()).parts)}]"
    suffix = f":{kind}" if kind else ""
    main, *_ = problem.files
    if all(file.is_relative_to(root.resolve()) for file in problem.files):
        inside, copied = main.relative_to(root.resolve()), {}
    else:
        base = Path(os.path.commonpath([file.parent for file in problem.files]))
        copied = {
            COPIES / name / file.relative_to(base): file.read_text(encoding="utf-8")
            for file in sorted(problem.files, key=lambda file: file != main)
        }
        inside = next(iter(copied))
    expression = f'{above} / "{inside.as_posix()}"'
    return copied, f'f"{{{expression.replace(chr(34), chr(39))}}}{suffix}"' if suffix else expression


def _cases(problem: Problem) -> tuple[list[TrackedCase], dict[str, list[str]], list[str]]:
    """Return all cases, the names of those of each device, and a note on those that the CPU does without."""
    sample = problem.generate_sample()
    tensors = [value for value in sample["create_inputs"]() if hasattr(value, "data_ptr")]
    dtype = dtype_of(tensors[0]) if tensors else DTYPE
    cases: list[TrackedCase] = []
    tests = problem.generate_test_cases()
    alone = [] if sample["name"] in (test["name"] for test in tests) else [sample]
    for test in (*tests, *alone):
        dimensions = sizes(problem, test)
        plain = re.sub(r"[^A-Za-z0-9_.=]+", "_", test["name"]).strip("_")[:NAME] or "case"  # no blanks, no signs
        name = f"{dtype}-{'sample' if test is sample else plain}"
        used = {case.ours for case in cases}
        ours = next(
            unique for unique in (name, *(f"{name}_{n}" for n in range(2, len(used) + 3))) if unique not in used
        )
        cases.append(
            TrackedCase(ours, test["name"], problem.get_flops(test), None if dimensions is None else sum(dimensions))
        )
    tracked = cases[: len(tests)]
    small = next(case for case in cases if case.name == sample["name"])
    fit = [case for case in tracked if case.bytes is not None and case.bytes <= CPU_BYTES]
    left = [f"{case.name} ({memory(case.bytes)})" for case in tracked if case not in fit and case.bytes is not None]
    left += [f"{case.name} (unknown)" for case in tracked if case.bytes is None]
    share = f"{len(left)} of {count(len(tracked), 'case')} only on CUDA"
    notes = [f"{share}, whose inputs and outputs take more than {memory(CPU_BYTES)}: {', '.join(left)}"]
    by_device = {"cpu": [case.ours for case in dict.fromkeys((small, *fit))], "cuda": [case.ours for case in tracked]}
    return cases, by_device, notes if left else []
