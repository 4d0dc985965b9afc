"""The C++ of a GPU MODE task in CUDA (`lang: cu`): compiled by nvcc, called from Python.

Its inputs, reference and check are C++ in task.h, utils.h and reference.cuh, and run on the CPU unless they call CUDA.
A solution is a .cu file with `output_t custom_kernel(input_t data)`. The other sides are in include/gpu_mode_*.cuh.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernel_velocity
from kernel_velocity.files import lasting_folder
from kernel_velocity.problem.problem import NotHereError, ProblemError

if TYPE_CHECKING:
    import torch

INCLUDE = Path(kernel_velocity.__file__).parent / "include"
TASK, SOLUTION = (INCLUDE / f"gpu_mode_{part}.cuh" for part in ("task", "solution"))
# GPU MODE's own flags, without what makes nvcc talk
FLAGS = ("--std=c++20", "-O3", "-DNDEBUG", "--expt-extended-lambda", "--expt-relaxed-constexpr", "-Xcompiler=-fPIC")
# Types of elements in the order of `kind_of`: torch's dtypes, and ctypes of numbers
KINDS: Sequence[tuple[str, Any]] = (
    ("float32", ctypes.c_float),
    ("float64", ctypes.c_double),
    ("float16", ctypes.c_uint16),
    ("bfloat16", ctypes.c_uint16),
    ("bool", ctypes.c_bool),
    ("int8", ctypes.c_int8),
    ("int16", ctypes.c_int16),
    ("int32", ctypes.c_int32),
    ("int64", ctypes.c_int64),
    ("uint8", ctypes.c_uint8),
    ("uint16", ctypes.c_uint16),
    ("uint32", ctypes.c_uint32),
    ("uint64", ctypes.c_uint64),
)
_MOST_LEAVES = 4096
_CALLS_CUDA = re.compile(r"^\s+U (?!cudaDeviceSynchronize)(cu(?:da)?[A-Z]\w+)", re.MULTILINE)  # what nm says
_libraries: dict[str, TaskLibrary] = {}  # of this process, by their texts


class _Leaf(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("kind", ctypes.c_int32),
        ("is_number", ctypes.c_int32),
    )


class Value:
    """A C++ object, an input or an output, which is deleted with this one."""

    def __init__(self, address: int, free: Any) -> None:
        self.address = address
        weakref.finalize(self, free, address)


@dataclass(frozen=True)
class TaskSources:
    """What a task compiles: the files that it names, and its settings.

    Attributes:
        task: path of its task.yml. files: path of each header, by the name that sources include it by. include_dirs,
            defines, flags: of its `config`.
    """

    task: Path
    files: Mapping[str, Path]
    include_dirs: Sequence[str] = ()
    defines: Mapping[str, Any] | None = None
    flags: Sequence[str] = ()


class TaskLibrary:
    """A task as a library: its arguments, and functions of `Value`s.

    Attributes:
        calls_cuda: a function of CUDA that it calls, so that it needs a device. "" for none.
        arguments: names of the arguments of `generate_input`, in order.
    """

    def __init__(self, path: Path, calls_cuda: str) -> None:
        self.calls_cuda = calls_cuda
        library = ctypes.CDLL(str(path))
        self._functions: dict[str, Any] = {}
        pointer, leaves = ctypes.c_void_p, ctypes.POINTER(_Leaf)
        functions: Sequence[tuple[str, Sequence[Any], Any]] = (
            ("failed", [], ctypes.c_char_p),
            ("argument", [ctypes.c_int64], ctypes.c_char_p),
            ("input", [ctypes.POINTER(ctypes.c_char_p)], pointer),
            ("reference", [pointer], pointer),
            ("check", [pointer, pointer], ctypes.c_int32),
            *((f"{kind}_leaves", [pointer, leaves, ctypes.c_int64], ctypes.c_int64) for kind in ("input", "output")),
            *((f"{kind}_with", [pointer, leaves], pointer) for kind in ("input", "output")),
            *((f"free_{kind}", [pointer], None) for kind in ("input", "output")),
        )
        for name, kinds, result in functions:
            function = library[f"kv_task_{name}"]
            function.argtypes, function.restype = kinds, result
            self._functions[name] = function
        self.arguments = tuple(self._argument_names())

    def _argument_names(self) -> list[str]:
        names: list[str] = []
        while (name := self._call("argument", len(names))) is not None:
            names.append(name.decode())
        return names

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._functions[name](*arguments)

    def made(self, kind: str, address: int | None) -> Value:
        """Return an "input" or an "output" that a function has made.

        Raises:
            ProblemError: it has made none, with its exception.
        """
        if not address:
            raise ProblemError(f"its C++ throws: {self.why()}")
        return Value(address, self._functions[f"free_{kind}"])

    def why(self) -> str:
        """Return the message of the last call that failed."""
        return " ".join(self._call("failed").decode(errors="replace").split())

    def input(self, values: Mapping[str, Any]) -> Value:
        """Return what `generate_input` makes of the values of a test case."""
        if lacking := [name for name in self.arguments if name not in values]:
            raise ProblemError(f"a case has no {lacking[0]!r}; generate_input takes {', '.join(self.arguments)}")
        texts = [str(values[name]).encode() for name in self.arguments]
        return self.made("input", self._call("input", (ctypes.c_char_p * len(texts))(*texts)))

    def reference(self, value: Value) -> Value:
        """Return what `ref_kernel` computes of an input."""
        return self.made("output", self._call("reference", value.address))

    def check(self, value: Value, output: Value) -> str:
        """Return what `check_implementation` says against an output, "" for right."""
        return "" if self._call("check", value.address, output.address) == 1 else self.why() or "no reason given"

    def leaves(self, kind: str, value: Value) -> tuple[Any, ...]:
        """Return the numbers of an input or an output, and its elements: 1-D tensors in its own memory."""
        leaves = (_Leaf * _MOST_LEAVES)()
        count = self._call(f"{kind}_leaves", value.address, leaves, _MOST_LEAVES)
        if count > _MOST_LEAVES:
            raise ProblemError(f"its {kind}_t has {count} vectors; at most {_MOST_LEAVES} are read")
        return tuple(_read(leaf, value) for leaf in leaves[:count])

    def outputs(self, value: Value) -> Any:
        """Return the only leaf of an output, or all of them."""
        leaves = self.leaves("output", value)
        return leaves[0] if len(leaves) == 1 else leaves

    def with_leaves(self, kind: str, like: Value, values: Sequence[Any]) -> Value:
        """Return an input or an output of the form of another, with other numbers and elements (copies)."""
        leaves = (_Leaf * max(len(values), 1))()
        held = []  # until they are copied
        for leaf, value, old in zip(leaves, values, self.leaves(kind, like), strict=True):
            memory, leaf.data, leaf.count = _held(value, old)
            held.append(memory)
        return self.made(kind, self._call(f"{kind}_with", like.address, leaves))


def _read(leaf: Any, owner: Value) -> Any:
    import torch  # noqa: PLC0415 - discovery must work without torch

    dtype, kind = KINDS[leaf.kind]
    if leaf.count == 0:
        return torch.empty(0, dtype=getattr(torch, dtype))
    memory = (kind * leaf.count).from_address(leaf.data)
    memory.owner = owner
    tensor = torch.frombuffer(memory, dtype=getattr(torch, dtype))
    return tensor[0].item() if leaf.is_number else tensor


def _held(value: Any, old: Any) -> tuple[Any, int, int]:
    """Return what holds the elements of a value in memory, with its address and their number."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    dtype = getattr(old, "dtype", None) or (torch.float64 if isinstance(old, float) else torch.int64)
    tensor: torch.Tensor = torch.as_tensor(value).detach().to("cpu", dtype).contiguous()
    return tensor, tensor.data_ptr(), tensor.numel()


class SolutionLibrary:
    """A compiled solution.

    Attributes:
        path: of the library, which times a region of itself. calls_cuda: as a task's.
    """

    def __init__(self, path: Path, calls_cuda: str) -> None:
        self.path, self.calls_cuda = path, calls_cuda
        library = ctypes.CDLL(str(path))
        self._solve, self._failed, self._free = (
            library[f"kv_task_{name}"] for name in ("solve", "failed", "free_output")
        )
        self._solve.argtypes, self._solve.restype = [ctypes.c_void_p], ctypes.c_void_p
        self._free.argtypes, self._failed.restype = [ctypes.c_void_p], ctypes.c_char_p

    def solve(self, value: Value) -> Value:
        """Return the output for an input.

        Raises:
            RuntimeError: it throws, with the message.
        """
        if not (address := self._solve(value.address)):
            raise RuntimeError(self._failed().decode(errors="replace"))
        return Value(address, self._free)


def task_library(sources: TaskSources) -> TaskLibrary:
    """Compile a task and load it. The same files are compiled once in a process.

    Raises:
        NotHereError: there is no nvcc, or a folder of headers that the task names is not here.
        ProblemError: nvcc finds a mistake. The message has the first.
    """
    key = repr([(name, file.read_bytes()) for name, file in sorted(sources.files.items())] + [sources])
    if key not in _libraries:
        _libraries[key] = TaskLibrary(*_compiled(sources, sources.task))
    return _libraries[key]


def solution_library(sources: TaskSources, solution: Path) -> SolutionLibrary:
    """Compile a solution of a task and load it. It raises what `task_library` does."""
    return SolutionLibrary(*_compiled(sources, solution, ["-include", str(SOLUTION)]))


def _compiled(sources: TaskSources, file: Path, more: Sequence[str] = ()) -> tuple[Path, str]:
    """Return the library of a task or of a solution's file, and a function of CUDA that it calls."""
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        raise NotHereError(f"{sources.task}: needs nvcc, which is not on PATH: its lang is 'cu'")
    if absent := [folder for folder in sources.include_dirs if not (sources.task.parent / folder).is_dir()]:
        raise NotHereError(f"{sources.task}: needs the headers in {absent[0]}, which are not here (include_dirs)")
    folder = lasting_folder("kv-task-")
    source = TASK if file == sources.task else folder / file.name
    copied = {folder / name: header for name, header in sources.files.items()} | ({source: file} if more else {})
    for copy, original in copied.items():  # a solution lies beside the headers, as GPU MODE has it
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(original, copy)
    defines = [name if value is None else f"{name}={value}" for name, value in (sources.defines or {}).items()]
    options = [*FLAGS, *sources.flags, *(f"-D{define}" for define in defines), f"-I{folder}", f"-I{INCLUDE}"]
    options += [f"-I{(sources.task.parent / include).resolve()}" for include in sources.include_dirs]
    part, library = folder / "part.o", folder / "part.so"
    _run(file, [nvcc, *options, "-x", "cu", "-c", *more, str(source), "-o", str(part)])
    _run(file, [nvcc, "-shared", str(part), "-o", str(library)])
    called = _CALLS_CUDA.search(_run(file, ["nm", "-u", str(part)]))
    return library, called[1] if called else ""


def _run(file: Path, command: Sequence[str]) -> str:
    """Return what a compiler's program prints. ProblemError: the first error that it tells of the file."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = re.sub(r"/\S*/kv-task-\w+/", "", done.stderr + done.stdout).splitlines()
        first = next((line for line in lines if "error" in line), next(iter(lines), "it says nothing"))
        raise ProblemError(f"{file}: nvcc does not compile it: {' '.join(first.split())[:300]}")
    return done.stdout
