"""The files of a new kernel, as text: rendered templates, formatted by ruff and clang-format where these are there."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernel_velocity import config
from kernel_velocity.errors import UsageError
from kernel_velocity.scaffold.signature import PUBLIC_TYPES, TYPES, Parameter, Signature

TEMPLATES = Path(__file__).parent / "new_templates"
_CLANG_FORMAT = ("clang-format", "--fallback-style=none", "--assume-filename")  # none: without settings nothing changes
FORMATTERS = {".py": ("ruff", "format", "--stdin-filename"), ".cpp": _CLANG_FORMAT, ".cu": _CLANG_FORMAT}
POSITIONAL = 5  # arguments that ruff lets a function have
WIDTH = 80  # characters of a part of a long declaration
VECTOR_SIZES = ("500k", "1M", "5M", "10M", "50M")
ARRAY_ELEMENTS = (2**16, 2**18, 2**20, 2**22, 2**24)  # of the largest tensor, with several sizes: 256 KB to 64 MB
ALIKE = {"bool": ("uint8", "int8"), "float8_e4m3fn": ("uint8",), "float8_e5m2": ("uint8",)}  # dtypes of the same bits
# dtype -> the tensor method that converts to it, and by how much normal values are spread before that.
METHODS = {
    **{"float32": "float", "float64": "double", "float16": "half", "bfloat16": "bfloat16"},
    **{"int8": "char", "uint8": "byte", "int32": "int", "int64": "long"},
}
SPREAD = {"int8": 20, "uint8": 20, "int32": 1000, "int64": 1000}


@dataclass(frozen=True, kw_only=True)
class Argument(Parameter):
    """An argument of a kernel, with the dtypes of its tensors."""

    called: str  # in Python

    @property
    def kind(self) -> str:
        """Return its type in Python."""
        return "TensorLike" if self.pointer else "float" if self.type in ("float", "double") else "int"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Return the dtypes that its tensor may have: unsigned integers are signed ones in some definitions."""
        dtype = PUBLIC_TYPES[self.type].dtype
        if "int" in dtype and self.type not in TYPES:
            return (dtype, dtype.removeprefix("u") if dtype.startswith("u") else f"u{dtype}")
        return (dtype, *ALIKE.get(dtype, ()))


def has_package(root: Path) -> bool:
    """Return whether a repository is laid out as ours: a package of kernels, with a folder for each."""
    return (root / "kernels" / "_native").is_dir()


def class_name(name: str) -> str:
    """Return "MyOp" for "my_op"."""
    return "".join(part.capitalize() for part in name.split("_"))


def files(root: Path, name: str, signature: Signature) -> tuple[dict[Path, str], list[str]]:
    """Return the files of a new kernel by their paths in the repository, and notes for the user.

    Args:
        root: the repository, whose settings of the formatters count.
        name: of the kernel. signature: its arguments.

    Raises:
        UsageError: a formatter failed.
    """
    arguments = [Argument(**vars(param), called=param.python) for param in signature.parameters]
    sizes = [
        argument for argument, param in zip(arguments, signature.parameters, strict=True) if param in signature.sizes
    ]
    values = {**_of_elements(name, signature), **native(arguments, sizes), "shown": ""}
    function = "solution" if has_package(root) else name
    values |= {"function": function, "declaration": _declaration(function, arguments)}
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
        "types": PUBLIC_TYPES,
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
        "headers": sorted({PUBLIC_TYPES[argument.type].header for argument in pointers} - {""}),
        "allowed": "  # noqa: PLR0917 - the problem has so many" if len(reads) > POSITIONAL else "",
    }


def declared(param: Parameter, language: str, *, wide: bool = False) -> str:
    """Return an argument's declaration, of int64_t where it is `wide`."""
    kind = "int64_t" if wide else str(getattr(PUBLIC_TYPES[param.type], language))
    if param.pointer:
        return f"{'' if param.output else 'const '}{kind}* {param.name}"
    return f"{kind} {param.name}"


def _of_elements(name: str, signature: Signature) -> dict[str, Any]:
    """Return what the template of a benchmark needs: until it is said what it computes, the sum of its inputs."""
    output = TYPES[signature.output.type].dtype
    dtypes = [TYPES[param.type].dtype for param in signature.inputs]
    tensors = [param.python for param in signature.inputs]
    factors = [param.python for param in signature.values] or ["2"]
    formula = " * ".join([tensors[0] if len(tensors) == 1 else f"({' + '.join(tensors)})", *factors])
    extents = [param.python for param in signature.sizes]
    shape = "" if len(extents) == 1 else f".reshape({', '.join(extents)})"
    inputs = [
        _made(TYPES[param.type].dtype, f'kv.normal({" * ".join(extents)}, "{name}/{param.python}"){shape}')
        if param.pointer
        else ("0.5" if param.type in ("float", "double") else "3")
        for param in signature.arguments
    ]
    return {
        "dtype": dtypes[0],
        "output_dtype": output,
        "names": [param.python for param in signature.arguments],
        "computed": formula if set(dtypes) == {output} else f"({formula}).{METHODS[output]}()",
        "flops": len(tensors) - 1 + len(factors),
        "bytes": sum(TYPES[param.type].size for param in (*signature.inputs, signature.output)),
        "inputs": inputs,
        "cases": [f"{dtypes[0]}-{size}" for size in _sizes(len(extents))],
        "trials": [f"{dtypes[0]}-{'x'.join(map(str, dims))}" for dims in _trials(len(extents))],
    }


def _made(dtype: str, values: str) -> str:
    """Return what makes normal values of a dtype, in Python."""
    if dtype in SPREAD:
        values = f"({SPREAD[dtype]} * {values}{'.abs()' if dtype == 'uint8' else ''})"
    return values if dtype == "float32" else f"{values}.{METHODS[dtype]}()"


def _declaration(function: str, arguments: Sequence[Argument]) -> str:
    """Return a C function's declaration as a text in Python, with Python's names, in parts where it is long."""
    named = [
        f"{'const ' if argument.pointer and not argument.output else ''}{argument.type}{'*' * argument.pointer} "
        f"{argument.called}"
        for argument in arguments
    ]
    parts = textwrap.wrap(f"void {function}({', '.join(named)})", WIDTH, drop_whitespace=False)
    quoted = [f'"{part}"' for part in parts]
    return quoted[0] if len(quoted) == 1 else f"({' '.join(quoted)})"


def _sizes(axes: int) -> list[str]:
    """Return the sizes of the test cases: of a vector, or of arrays with that many axes of one extent."""
    if axes == 1:
        return list(VECTOR_SIZES)
    extents = [max(2, 8 * round(count ** (1 / axes) / 8)) for count in ARRAY_ELEMENTS]
    return ["x".join([str(extent)] * axes) for extent in extents]


def _trials(axes: int) -> list[tuple[int, ...]]:
    """Return the sizes that the test tries: one, around vectors and blocks, more than one block has threads."""
    if axes == 1:
        return [(1,), (7,), (16,), (257,), (4099,)]
    odd = math.ceil(4099 ** (1 / axes)) | 1
    return [(1,) * axes, (3, *(5,) * (axes - 1)), (odd,) * axes]
