"""``kv new my_op``: the files of a new kernel, which `make test` and `kv track` see at once.

Until its native code is written the kernel is measured as `eager` and `compile`, and `native` is n/a.
"""

from __future__ import annotations

import argparse
import builtins
import keyword
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TextIO

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernel_velocity import progress
from kernel_velocity.errors import UsageError
from kernel_velocity.files import replace_bytes, replace_text
from kernel_velocity.problem.null_answers import of_reference
from kernel_velocity.problem.problem import NotHereError, Problem, TestCase
from kernel_velocity.problem.problem_file import DTYPE, dtype_of, load_file, parameters_of, sizes
from kernel_velocity.scaffold.init import python_package, section_file, with_kernel
from kernel_velocity.suite import config
from kernel_velocity.units import count, memory
from kernel_velocity.unproven import UNPROVEN, in_words

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


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Write the files, all or none, and print the next steps."""
    root: Path = args.root
    config.check(root)
    check_name(args.name)
    if args.problem is None:
        texts, notes = vector_files(root, args.name)
    else:
        with progress.reported(err):
            texts, notes = problem_files(root, args.name, args.problem)
    _check_free(root, args.name, texts)
    write_all(root, texts)
    for path in texts:
        print(path.as_posix(), file=out)
    for note in notes:
        print(f"note: {note}", file=out)
    benchmark, folder = next(iter(texts)), next((path.parent for path in texts if path.suffix == ".cpp"), None)
    steps = [] if args.problem else [f"say what it computes ({benchmark})"]
    steps += [] if folder is None else [f"write it ({folder}/{args.name}.cpp, {args.name}.cu)"]
    if has_package(root):
        steps.append(f"name its devices (SUPPORTS in {folder}/__init__.py)")
        steps.append("make test, commit, make track")
    else:
        steps += [] if folder is None else [f"see that it is built as you want ({section_file(root)})"]
        steps.append(f"kv compare {args.name}, commit, kv track")
    print(f"Now {', then '.join(steps)}.", file=out)
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
    if class_name(name) in CLASSES:
        reason = "its class would be called like one of the suite's own"
    if reason is not None:
        raise UsageError(f"{name!r} is taken: {reason}; call the kernel something else, such as my_{name}")


def _check_free(root: Path, name: str, texts: Mapping[Path, str]) -> None:
    new = [path for path in texts if path.name not in (config.OWN_FILE, config.PROJECT_FILE)]
    existing = [path for path in (Path("kernels", name), Path("benchmarks", name), *new) if (root / path).exists()]
    if existing:
        raise UsageError(f"{name}: {existing[0].as_posix()} exists; remove it, or call the kernel something else")


def write_all(root: Path, texts: Mapping[Path, str]) -> None:
    """Write files below a folder, all or, when one cannot be written, none."""
    folders = [root / path.parent for path in texts if not (root / path.parent).exists()]
    before = {root / path: (root / path).read_bytes() for path in texts if (root / path).exists()}
    written: list[Path] = []
    try:
        for path, text in texts.items():
            replace_text(root / path, text)
            written.append(root / path)
    except BaseException:
        for path in written:
            if path in before:
                replace_bytes(path, before[path])
            else:
                path.unlink()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        raise


# The files as text ----------------------------------------------------------------------------------------------------

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


def vector_files(root: Path, name: str) -> tuple[dict[Path, str], list[str]]:
    """Return the files of a new kernel by their paths in the repository, and notes for the user.

    It is of a vector to a vector of float32. `problem_files` writes those of other arguments.

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
    package = "" if packaged or "cases" in values else python_package(root)
    common = {
        "name": name,
        "class_name": class_name(name),
        "packaged": packaged,
        "package": package,
        "source": source.as_posix(),
    }
    if packaged:
        code = {
            Path("kernels", name, "__init__.py"): "kernel.py.j2",
            Path("kernels", name, f"{name}.cpp"): "kernel.cpp.j2",
            Path("kernels", name, f"{name}.cu"): "kernel.cu.j2",
            Path("tests", "kernels", f"test_{name}.py"): "test.py.j2",
        }
        return render(root, {benchmark: template, **code}, {**values, **common}), []
    if package:
        return render(root, {benchmark: template}, {**values, **common}), []
    code = {source.with_suffix(f".{end}"): f"plain.{end}.j2" for end in ("cpp", "cu")}
    changed, settings = with_kernel(root, PurePosixPath(source.as_posix()), name)
    note = f"{section_file(root)} is left as it is; to have the kernel built, write {settings}"
    return {**render(root, {benchmark: template, **code}, {**values, **common}), **changed}, [] if changed else [note]


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
    done = subprocess.run(command, cwd=root, input=text, capture_output=True, text=True, errors="replace", check=False)
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


# The files of a public problem ----------------------------------------------------------------------------------------

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


def problem_files(root: Path, name: str, where: str) -> tuple[dict[Path, str], list[str]]:
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
    """Return all cases, the names of those of each device, and notes: on what the CPU leaves out, and on the check."""
    sample = problem.generate_sample()
    tensors = [value for value in sample["create_inputs"]() if hasattr(value, "data_ptr")]
    dtype = dtype_of(tensors[0]) if tensors else DTYPE
    cases: list[TrackedCase] = []
    tests = problem.generate_test_cases()
    alone = [] if sample["name"] in (test["name"] for test in tests) else [sample]
    for test in progress.counted("reading cases", [*tests, *alone]):
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
    notes = [f"{share}, whose inputs and outputs take more than {memory(CPU_BYTES)}: {', '.join(left)}"] if left else []
    of_inputs = sum(value.numel() * value.element_size() for value in tensors)
    if (of_inputs if small.bytes is None else small.bytes) <= CPU_BYTES:
        notes += _doubts(problem, sample)
    by_device = {"cpu": [case.ours for case in dict.fromkeys((small, *fit))], "cuda": [case.ours for case in tracked]}
    return cases, by_device, notes


def _doubts(problem: Problem, sample: TestCase) -> list[str]:
    """Return a note where null answers pass the problem's own check on its sample."""
    try:
        passed = of_reference(problem, sample)
    except NotHereError as error:
        return [f"whether its check proves anything is not known: {error}"]
    return [f"{UNPROVEN}: on {sample['name']} {in_words(passed)}"] if passed else []


# The arguments of a kernel, under names that C++ and Python can have --------------------------------------------------


class CType(NamedTuple):
    """An element type: torch's name, its names in C++ and CUDA, of ctypes, and the header of CUDA's."""

    dtype: str
    cpp: str
    cuda: str
    ctypes: str
    header: str = ""


# C++17 has no floating-point type of 16 or 8 bits: the CPU gets the bits.
_HALF = CType("float16", "uint16_t", "__half", "c_uint16", "cuda_fp16.h")
_FLOAT8 = CType("float8_e4m3fn", "uint8_t", "__nv_fp8_e4m3", "c_uint8", "cuda_fp8.h")
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
# Tensors of unsigned integers may be of the signed type.
TYPES = {
    "float": CType("float32", "float", "float", "c_float"),
    "double": CType("float64", "double", "double", "c_double"),
    **dict.fromkeys(("float16", "half"), _HALF),
    "bfloat16": CType("bfloat16", "uint16_t", "__nv_bfloat16", "c_uint16", "cuda_bf16.h"),
    **dict.fromkeys(("float8", "float8_e4m3", "float8_e4m3fn"), _FLOAT8),
    "float8_e5m2": CType("float8_e5m2", "uint8_t", "__nv_fp8_e5m2", "c_uint8", "cuda_fp8.h"),
    "float4": CType("uint8", "uint8_t", "uint8_t", "c_uint8"),
    "bool": CType("bool", "bool", "bool", "c_bool"),
    "char": CType("int8", "char", "char", "c_int8"),
    "int": CType("int32", "int", "int", "c_int"),
    **{f"{dtype}_t": CType(dtype, f"{dtype}_t", f"{dtype}_t", f"c_{dtype}") for dtype in _INTEGERS},
    "size_t": CType("int64", "size_t", "size_t", "c_size_t"),
}
# Dtypes of the same bits: what a tensor may have beside its own.
_ALIKE = {"bool": ("uint8", "int8"), "float8_e4m3fn": ("uint8",), "float8_e5m2": ("uint8",)}
_ALIKE |= {dtype: (dtype[1:] if dtype[0] == "u" else f"u{dtype}",) for dtype in _INTEGERS}
# What the generated C++ and, for what a caller gives, the generated Python call something else.
_TAKEN_BY_CODE = {"threads", "device", "stream", "begin", "end", "i", "elements", "step", "queue", "solution"}
_TAKEN_BY_PYTHON = {
    *re.findall(
        r"\w+", "inputs output shape ctypes read out call got bind torch kv dtype expected empty verify problem"
    ),
    *re.findall(r"\w+", "tensor tensors values require_same_device require_shape annotations"),
    "raise_for_status",
}
# C++ keywords that Python has not, and macros and types that the headers bring.
_CPP = frozenset(
    re.findall(
        r"\w+",
        """
    alignas alignof auto bool case catch char const constexpr const_cast decltype default delete do double
    dynamic_cast enum explicit export extern false float friend goto inline int long mutable namespace new noexcept
    nullptr operator private protected public register reinterpret_cast short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true typedef typeid typename union unsigned using
    virtual void volatile wchar_t NULL unix linux size_t threadIdx blockIdx blockDim gridDim kv
    """,
    )
)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of a kernel: a key of TYPES, a pointer or not, written to or not."""

    name: str  # in C
    called: str  # in Python
    type: str
    pointer: bool
    output: bool = False

    @property
    def kind(self) -> str:
        """Return its type in Python."""
        return "TensorLike" if self.pointer else "float" if self.type in ("float", "double") else "int"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Return the dtypes that its tensor may have: unsigned integers are signed ones in some definitions."""
        dtype = TYPES[self.type].dtype
        return (dtype, *_ALIKE.get(dtype, ()))


def of_problem(where: str, parameters: Sequence[Mapping[str, Any]]) -> list[Argument]:
    """Return the arguments that a public problem's solution takes, under names that C++ and Python can have.

    In Python they are in lower case, none of Python's own or ours, and none comes twice.

    Raises:
        UsageError: one is of a C type that is not known. The message begins with `where`.
    """
    arguments: list[Argument] = []
    for entry in parameters:
        if entry["type"] not in TYPES:
            raise UsageError(f"{where}: {entry['name']!r} is of type {entry['type']!r}; there are {', '.join(TYPES)}")
        name = re.sub(r"\W", "_", entry["name"], flags=re.ASCII).strip("_")
        name = name if name[:1].isalpha() else f"x{name}"
        name = f"{name}_" if name in _CPP | _TAKEN_BY_CODE or name in TYPES else name
        while name in (argument.name for argument in arguments):
            name += "2"
        called = name.lower()
        for reserved in ({*keyword.kwlist, *vars(builtins)}, _TAKEN_BY_CODE | _TAKEN_BY_PYTHON):
            called = f"{called}_" if called in reserved else called
        while called in (argument.called for argument in arguments):
            called += "2"
        pointer = bool(entry["pointer"])
        output = pointer and not entry["const"]
        arguments.append(Argument(name=name, called=called, type=entry["type"], pointer=pointer, output=output))
    return arguments
