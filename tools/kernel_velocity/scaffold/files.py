"""The files of a new kernel, as text: templates, and the lines whose breaks depend on how long the names are.

What is generated is formatted as `make lint` wants it: the two functions below break lines as clang-format and ruff do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernel_velocity.scaffold.signature import SIZE, TYPES, Parameter, Signature

TEMPLATES = Path(__file__).parent / "new_templates"
CPP_COLUMNS = 110  # .clang-format
PYTHON_COLUMNS = 120  # pyproject.toml
POSITIONAL = 5  # arguments that ruff lets a function have
VECTOR_SIZES = ("500k", "1M", "5M", "10M", "50M")
ARRAY_ELEMENTS = (2**16, 2**18, 2**20, 2**22, 2**24)  # of the largest tensor, with several sizes: 256 KB to 64 MB
ABIS = ("kv", "solution")
# How right the result must be, relative and absolute: 1e-5 of float32 is what published suites ask; for half precision
# eight units in the last place.
TOLERANCES = {"float32": "1e-5", "float64": "1e-7", "float16": "2.0**-7", "bfloat16": "2.0**-4"}
# Of normal values, by dtype: the tensor method that makes them.
MADE = {
    "float32": "{}",
    "float64": "{}.double()",
    "float16": "{}.half()",
    "bfloat16": "{}.bfloat16()",
    "int8": "(20 * {}).char()",
    "uint8": "(20 * {}.abs()).byte()",
    "int32": "(1000 * {}).int()",
    "int64": "(1000 * {}).long()",
}


def packed(head: str, items: Sequence[str], tail: str) -> str:
    """Break `head(items)tail` as clang-format does: lines filled, from behind the bracket, or from below if shorter.

    It begins a call's arguments below the bracket to save one line, a declaration's to save two (clang-format 23).
    """
    below = len(head) - len(head.lstrip()) + 4
    behind = _filled(head, len(head), items, tail)
    shorter = [head, *_filled(" " * below, below, items, tail)]
    return "\n".join(shorter if len(behind) - len(shorter) >= (1 if tail.endswith(";") else 2) else behind)


def cpu_kernel(name: str, parameters: Sequence[str], names: Sequence[str]) -> str:
    """Return `KV_CPU_KERNEL(name, (parameters), (names)) {`, broken as clang-format does (kv_isa.h has the macro)."""
    head, tail = f"KV_CPU_KERNEL({name},", f"({', '.join(names)})) {{"
    declared = f"({', '.join(parameters)}),"
    if len(f"{head} {declared} {tail}") <= CPP_COLUMNS:
        return f"{head} {declared} {tail}"
    indent = " " * len("KV_CPU_KERNEL(")
    named = _filled(f"{indent}(", len(indent) + 1, names, ")) {")
    if len(f"{head} {declared}") <= CPP_COLUMNS:
        return "\n".join([f"{head} {declared}", *named])
    if len(f"{indent}{declared} {tail}") <= CPP_COLUMNS:
        return f"{head}\n{indent}{declared} {tail}"
    return "\n".join([head, *_filled(f"{indent}(", len(indent) + 1, parameters, "),"), *named])


def _filled(first: str, indent: int, items: Sequence[str], tail: str) -> list[str]:
    """Return lines filled with items, the first of which begins with `first`."""
    lines = [f"{first}{items[0]}"]
    for index, item in enumerate(items[1:], 1):
        end = tail if index == len(items) - 1 else ","
        if len(lines[-1]) + len(f", {item}{end}") <= CPP_COLUMNS:
            lines[-1] += f", {item}"
        else:
            lines[-1] += ","
            lines.append(" " * indent + item)
    return [*lines[:-1], lines[-1] + tail]


def exploded(indent: int, head: str, items: Sequence[str], tail: str, *, comma: bool = False) -> str:
    """Break `head(items)tail` as ruff does: one line where it fits, else one for each item.

    Args:
        comma: whether a tuple is meant, which has a comma behind its only item.
    """
    space = " " * indent
    line = f"{space}{head}{', '.join(items)}{',' if comma and len(items) == 1 else ''}{tail}"
    if len(line) <= PYTHON_COLUMNS:
        return line
    return "\n".join([f"{space}{head}", *(f"{space}    {item}," for item in items), f"{space}{tail}"])


def class_name(name: str) -> str:
    """Return "MyOp" for "my_op"."""
    return "".join(part.capitalize() for part in name.split("_"))


def files(name: str, signature: Signature, abi: str) -> Mapping[Path, str]:
    """Return the files of a new kernel by their paths in the repository.

    Args:
        name: of the kernel. signature: its arguments. abi: "kv" (status, threads, stream) or "solution".
    """
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    values = _values(name, signature, abi)
    wanted = {
        Path("kernels", name, "__init__.py"): "kernel.py.j2",
        Path("kernels", name, f"{name}.cpp"): f"{abi}.cpp.j2",
        Path("kernels", name, f"{name}.cu"): f"{abi}.cu.j2",
        Path("benchmarks", f"{name}.py"): "benchmark.py.j2",
        Path("tests", "kernels", f"test_{name}.py"): "test.py.j2",
    }
    return {path: templates.get_template(template).render(values) for path, template in wanted.items()}


def _values(name: str, signature: Signature, abi: str) -> dict[str, Any]:
    """Return what the templates know."""
    return {
        "name": name,
        "class_name": class_name(name),
        "abi": abi,
        "signature": signature,
        "types": TYPES,
        "pointers": [item for item in signature.parameters if item.pointer],
        "allowed": "  # noqa: PLR0917 - the problem has so many" if len(signature.arguments) > POSITIONAL else "",
        "dtype": TYPES[signature.inputs[0].type].dtype,
        "packed": packed,
        "cpu_kernel": cpu_kernel,
        "exploded": exploded,
        **_native(signature),
        **_problem(signature),
    }


def _native(signature: Signature) -> dict[str, Any]:
    pointers = [item for item in signature.parameters if item.pointer]
    sizes, values = signature.sizes, signature.values
    in_order = (*pointers, *sizes, *values)
    return {
        "kv_cpp": [_declared(item, "cpp", wide=item in sizes) for item in in_order],
        "kv_cuda": [_declared(item, "cuda", wide=item in sizes) for item in in_order],
        "solution_cpp": [_declared(item, "cpp") for item in signature.parameters],
        "solution_cuda": [_declared(item, "cuda") for item in signature.parameters],
        "kv_names": [item.name for item in in_order],
        "solution_names": [item.name for item in signature.parameters],
        "solution_arguments": [
            f"static_cast<{item.type}>({item.name})" if item in sizes and item.type != "int64_t" else item.name
            for item in signature.parameters
        ],
        "elements": " * ".join(item.name for item in sizes),
        "solution_elements": ("" if all(item.type == SIZE for item in sizes) else "size_t{1} * ")
        + " * ".join(item.name for item in sizes),
        "headers": sorted({TYPES[item.type].header for item in pointers} - {""}),
    }


def _declared(item: Parameter, language: str, *, wide: bool = False) -> str:
    """Return an argument's declaration; a `wide` one is int64_t."""
    kind = "int64_t" if wide else SIZE if item.type == SIZE else str(getattr(TYPES[item.type], language))
    if item.pointer:
        return f"{'' if item.output else 'const '}{kind}* {item.name}"
    return f"{kind} {item.name}"


def _problem(signature: Signature) -> dict[str, Any]:
    output = TYPES[signature.output.type].dtype
    dtypes = [TYPES[item.type].dtype for item in signature.inputs]
    names = [item.python for item in signature.inputs]
    factors = [item.python for item in signature.values] or ["2"]
    return {
        "output_dtype": output,
        "is_float": output in TOLERANCES,
        "tolerance": TOLERANCES.get(output),
        "formula": _formula(names, factors, 50) or "the sum of its inputs, times its numbers",
        "computed": _computed(names, factors, output if set(dtypes) != {output} else None),
        "cast": set(dtypes) != {output},
        "flops": len(names) - 1 + len(factors),
        "bytes": sum(TYPES[item.type].size for item in (*signature.inputs, signature.output)),
        "returned": _returned(signature),
        "constants": {
            item.python.upper(): "0.5" if item.type in ("float", "double") else "3" for item in signature.values
        },
        "cases": [f"{dtypes[0]}-{size}" for size in _sizes(len(signature.sizes))],
        "is_default_vector": len(signature.sizes) == 1 and dtypes[0] == "float32",
        "typed_axes": [f"{item.python}: int" for item in signature.sizes],
        "unpacked": _unpacked(signature),
        "first_tensor": signature.arguments.index(signature.inputs[0]),
        "trials": _trials(len(signature.sizes)),
    }


def _formula(names: Sequence[str], factors: Sequence[str], longest: int) -> str | None:
    """Return "(a + b) * alpha", None where that is too long."""
    total = names[0] if len(names) == 1 else f"({' + '.join(names)})"
    text = " * ".join([total, *factors])
    return text if len(text) <= longest else None


def _computed(names: Sequence[str], factors: Sequence[str], dtype: str | None) -> str:
    """Return the lines that compute `output`, as one of another dtype where one is given."""
    formula = _formula(names, factors, 60)
    steps = [f" + {name}" for name in names[1:]] + [f" * {factor}" for factor in factors]
    before = [] if formula else [f"total = {names[0]}", *(f"total = total{step}" for step in steps[:-1])]
    last = formula or f"total{steps[-1]}"
    lines = [*before, f"output: torch.Tensor = {last if dtype is None else f'({last}).to(torch.{dtype})'}"]
    return "\n".join(f"        {line}" for line in lines)


def _returned(signature: Signature) -> str:
    """Return the statement that returns the inputs of a test case."""
    extent = "count" if len(signature.sizes) == 1 else "shape"
    values = [
        MADE[TYPES[item.type].dtype].format(f'self.random({extent}, "{item.python}")')
        if item.pointer
        else item.python.upper()
        for item in signature.arguments
    ]
    return exploded(8, "return (", values, ")", comma=True)


def _unpacked(signature: Signature) -> str:
    names = [item.python for item in signature.arguments]
    if len(names) == 1:
        return f"        ({names[0]},) = inputs"
    line = f"        {', '.join(names)} = inputs"
    return line if len(line) <= PYTHON_COLUMNS else exploded(8, "(", names, ") = inputs")


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
