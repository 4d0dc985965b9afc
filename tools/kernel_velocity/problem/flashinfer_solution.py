"""Read a solution of a FlashInfer definition in JSON: write its sources to a folder, and import or compile them.

    {"name", "definition", "author", "spec": {"language", "target_hardware", "entry_point": "main.py::run", ...},
     "sources": [{"path": "main.py", "content": "..."}]}

The keys are those of FlashInfer-Bench's Solution (docs/flashinfer-trace/solution of its repository). Python, Triton and
TileLang are imported. C++ and CUDA are compiled with the binding that `spec` names, `tvm-ffi` unless it says `torch`.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kernel_velocity.files import lasting_folder
from kernel_velocity.problem.problem import NotHereError, ProblemError
from kernel_velocity.problem.problem_formats import FlashInfer, json_object, text_of
from kernel_velocity.problem.user_file import failure, has_cuda, import_file

IMPORTED, COMPILED = ("python", "triton", "tilelang"), ("cpp", "cuda")
_CPP, _CUDA = (".cpp", ".cc", ".cxx", ".c"), (".cu",)


@dataclass(frozen=True)
class FlashInferSolution:
    """The function of a solution. `writes`: it takes its outputs behind its inputs, and returns nothing."""

    function: Callable[..., Any]
    writes: bool


def load_solution(path: Path, problem: FlashInfer) -> FlashInferSolution:
    """Return the solution of a file, imported or compiled.

    Args:
        path: of the JSON. problem: what it must solve, on its device.

    Raises:
        ProblemError: it is of another form, solves another definition, or its code fails.
        NotHereError: it needs CUDA, or a module that is not installed.
    """
    solution = json_object(path, text_of(path))
    wanted = '{"definition": "...", "spec": {"language", "entry_point"}, "sources": [{"path", "content"}]}'
    spec, sources = solution.get("spec"), _sources(solution.get("sources"))
    if sources is None or not isinstance(spec, Mapping):
        raise ProblemError(f"{path}: no solution of FlashInfer; wanted {wanted}")
    if (solved := solution.get("definition")) != problem.name:
        raise ProblemError(f"{path}: solves the definition {solved!r}, the problem is {problem.name!r}")
    language, entry = str(spec.get("language")).casefold(), str(spec.get("entry_point"))
    file, _, function = entry.rpartition("::")
    file = file or next(iter(sources))  # older ones name the function alone
    if language not in (*IMPORTED, *COMPILED) or file not in sources:
        languages = ", ".join((*IMPORTED, *COMPILED))
        raise ProblemError(
            f"{path}: spec: language is {language!r}, entry_point {entry!r}; wanted one of {languages}, "
            f"and FILE::FUNCTION with a file among the sources: {', '.join(sources)}"
        )
    if language == "cuda" and problem.device == "cpu":
        raise NotHereError(f"{path}: needs CUDA: the solution is in CUDA")
    folder = _written(path, sources)
    if language in IMPORTED:
        module: Any = import_file(folder / file)
    else:
        module = _compiled(path, folder, list(sources), spec, problem.device)
    if not hasattr(module, function):
        raise ProblemError(f"{path}: {file} has no function {function!r}")
    return FlashInferSolution(getattr(module, function), bool(spec.get("destination_passing_style", True)))


def _sources(entries: object) -> dict[str, str] | None:
    """Return the texts of the sources by their paths, None where they are no list of files inside a folder."""
    if not isinstance(entries, list) or not entries:
        return None
    sources: dict[str, str] = {}
    for entry in entries:
        path, content = (entry.get("path"), entry.get("content")) if isinstance(entry, Mapping) else (None, None)
        if not isinstance(path, str) or not isinstance(content, str) or "\0" in path:
            return None
        parts = PurePosixPath(path).parts
        if not parts or parts[0] == "/" or ".." in parts:
            return None
        sources[path] = content
    return sources


def _written(path: Path, sources: Mapping[str, str]) -> Path:
    folder = lasting_folder("kv-solution-")
    for name, content in sources.items():
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")
        except (OSError, UnicodeEncodeError) as error:
            raise ProblemError(f"{path}: source {name!r} cannot be written: {error}") from None
    return folder


def _compiled(path: Path, folder: Path, names: Sequence[str], spec: Mapping[str, Any], device: str) -> Any:
    """Return the module of C++ and CUDA sources, with the functions that its binding exports."""
    name = f"kv_solution_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    cpp, cuda = ([str(folder / source) for source in names if source.endswith(kinds)] for kinds in (_CPP, _CUDA))
    folders = {"extra_include_paths": [str(folder)], "build_directory": str(folder)}
    try:
        if spec.get("binding") == "torch":
            extension = importlib.import_module("torch.utils.cpp_extension")
            return extension.load(name=name, sources=[*cpp, *cuda], with_cuda=device == "cuda", **folders)
        ffi = importlib.import_module("tvm_ffi")
        libraries = ["-lcuda", "-lcublas"] if cuda else []
        build = importlib.import_module("tvm_ffi.cpp").build
        return ffi.load_module(
            str(build(name=name, cpp_files=cpp, cuda_files=cuda, extra_ldflags=libraries, **folders))
        )
    except (Exception, SystemExit) as error:
        raise failure(f"{path}:", "its sources do not compile", error, has_cuda=has_cuda()) from error
