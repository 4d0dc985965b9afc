"""The files of a new kernel, as text: rendered templates, formatted by ruff and clang-format where these are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernel_velocity.errors import UsageError
from kernel_velocity.scaffold.signature import TYPES, Argument
from kernel_velocity.suite import config

TEMPLATES = Path(__file__).parent / "new_templates"
_CLANG_FORMAT = ("clang-format", "--fallback-style=none", "--assume-filename")  # none: without settings nothing changes
FORMATTERS = {".py": ("ruff", "format", "--stdin-filename"), ".cpp": _CLANG_FORMAT, ".cu": _CLANG_FORMAT}
POSITIONAL = 5  # arguments that ruff lets a function have


def has_package(root: Path) -> bool:
    """Return whether a repository is laid out as ours: a package of kernels, with a folder for each."""
    return (root / "kernels" / "_native").is_dir()


def class_name(name: str) -> str:
    """Return "MyOp" for "my_op"."""
    return "".join(part.capitalize() for part in name.split("_"))


def files(root: Path, name: str) -> tuple[dict[Path, str], list[str]]:
    """Return the files of a new kernel by their paths in the repository, and notes for the user.

    It is of a vector to a vector of float32. `public.files` writes those of other arguments.

    Args:
        root: the repository, whose settings of the formatters count. name: of the kernel.

    Raises:
        UsageError: a formatter failed.
    """
    x, out, n = (
        Argument(name="x", called="x", type="float", pointer=True),
        Argument(name="out", called="out", type="float", pointer=True, output=True),
        Argument(name="n", called="n", type="size_t", pointer=False),
    )
    function = "solution" if has_package(root) else name
    values = {**native([x, out, n], [n]), "function": function, "dtype": "float32", "shown": ""}
    return kernel_files(root, name, "benchmark.py.j2", Path("kernels"), values)


def kernel_files(
    root: Path, name: str, template: str, folder: Path, values: Mapping[str, Any]
) -> tuple[dict[Path, str], list[str]]:
    """Return a benchmark and the starter code of its kernel, and notes for the user.

    In a repository laid out as ours the code is of its package, in any other one file a language, of a library that the
    build is to make.

    Args:
        template: of the benchmark. folder: of the code where the repository is another. values: of the templates.
    """
    benchmark = Path(os.path.relpath(config.suite(root).folder, root.resolve()), f"{name}.py")
    source, packaged = folder / name, has_package(root)
    common = {"name": name, "class_name": class_name(name), "packaged": packaged, "source": source.as_posix()}
    if packaged:
        code = {
            Path("kernels", name, "__init__.py"): "kernel.py.j2",
            Path("kernels", name, f"{name}.cpp"): "kernel.cpp.j2",
            Path("kernels", name, f"{name}.cu"): "kernel.cu.j2",
            Path("tests", "kernels", f"test_{name}.py"): "test.py.j2",
        }
        return render(root, {benchmark: template, **code}, {**values, **common}), []
    code = {source.with_suffix(f".{end}"): f"plain.{end}.j2" for end in ("cpp", "cu")}
    where = config.OWN_FILE if (root / config.OWN_FILE).is_file() else config.PROJECT_FILE
    note = f"a build that puts {name}.so into {{out}} gives its native times ({where}: build, built-from)"
    return render(root, {benchmark: template, **code}, {**values, **common}), [note]


def render(root: Path, sources: Mapping[Path, str], values: Mapping[str, Any]) -> dict[Path, str]:
    """Return files by their paths, made of templates and formatted.

    Raises:
        UsageError: a formatter failed.
    """
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    rendered = {path: templates.get_template(template).render(values) for path, template in sources.items()}
    return {path: _formatted(root, path, text) for path, text in rendered.items()}


def _formatted(root: Path, path: Path, text: str) -> str:
    """Return a file's text as its formatter breaks the lines, unchanged where the formatter is not installed."""
    program, *options = FORMATTERS[path.suffix]
    executable = shutil.which(
        program, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )
    if executable is None:
        return text
    command = [executable, *options, str(path)]
    done = subprocess.run(command, cwd=root, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{program} failed on {path}: {' '.join(done.stderr.split())}")
    return done.stdout


def native(arguments: Sequence[Argument], sizes: Sequence[Argument] = ()) -> dict[str, Any]:
    """Return what the templates of native code need.

    Args:
        arguments: of the kernel, in order. sizes: those that are the extents of every tensor.
    """
    pointers = [argument for argument in arguments if argument.pointer]
    numbers = [*sizes, *(argument for argument in arguments if not argument.pointer and argument not in sizes)]
    writes = [argument for argument in arguments if argument.output]
    reads = [argument for argument in arguments if not argument.output and argument not in sizes]
    keywords = ["out"] if len(writes) == 1 else [argument.called for argument in writes]
    if len(writes) == 1:  # the suite's keyword of a single output
        only = replace(writes[0], called="out")
        pointers = [only if argument.output else argument for argument in pointers]
        writes = [only]
    last = max(index for index, argument in enumerate(pointers) if argument.output)  # behind it, what the host keeps
    entry = [*pointers, *numbers]
    return {
        "types": TYPES,
        "arguments": arguments,
        "pointers": pointers,
        "numbers": numbers,
        "sizes": sizes,
        "axes": [size.called for size in sizes],
        "reads": reads,
        "writes": writes,
        "outputs": keywords if len(keywords) > 1 else [],
        "keywords": keywords,
        "first": next((index for index, argument in enumerate(pointers) if not argument.output), 0),
        "on_device": ", ".join(f"tensors[{index}]" for index in range(len(pointers) if sizes else last + 1)),
        "cpp": [declared(argument, "cpp") for argument in arguments],
        "cuda": [declared(argument, "cuda") for argument in arguments],
        "entry_cpp": [declared(argument, "cpp", wide=argument in sizes) for argument in entry],
        "entry_cuda": [declared(argument, "cuda", wide=argument in sizes) for argument in entry],
        "entry_names": [argument.name for argument in entry],
        "headers": sorted({TYPES[argument.type].header for argument in pointers} - {""}),
        "allowed": "  # noqa: PLR0917 - the problem has so many" if len(reads) > POSITIONAL else "",
    }


def declared(param: Argument, language: str, *, wide: bool = False) -> str:
    """Return an argument's declaration, of int64_t where it is `wide`."""
    kind = "int64_t" if wide else str(getattr(TYPES[param.type], language))
    if param.pointer:
        return f"{'' if param.output else 'const '}{kind}* {param.name}"
    return f"{kind} {param.name}"
