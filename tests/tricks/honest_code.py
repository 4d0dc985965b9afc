"""Honest kernels that look like tricks: they keep plans, depend on contents, take inputs with a meaning, are tiny."""

from __future__ import annotations

from dataclasses import dataclass

C_HEAD = """
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
"""
PYTHON_HEAD = """
import functools
import math

import kernel_velocity as kv
import torch


"""


@dataclass(frozen=True, kw_only=True)
class Honest:
    """An honest benchmark: its definition, the C source of its library, the settings that it is run with."""

    name: str
    definition: str
    source: str = ""
    environ: tuple[tuple[str, str], ...] = ()


def _of(name, case, inputs, reference, ours="", *, library="", signature="", tolerance=None, environ=(), before=""):
    """Return an honest benchmark. `ours` is a Python function, or `signature` is of one in a C `library`."""
    if signature:
        ours = f'ours = kv.native("libtrick.so", "{signature}")'
    body = "\n\n".join((inputs, reference, ours)).replace("\n", "\n    ")
    options = f'cases={{"{case}": ({case.partition("-")[2].replace("x", ", ")},)}}, tolerance={tolerance!r}'
    text = f'{PYTHON_HEAD}{before}\n\n@kv.benchmark({options}, devices=["cpu"])\nclass Product:\n    {body}\n'
    return Honest(name=name, definition=text, source=library and C_HEAD + library, environ=environ)


RANDOM = "def inputs(n):\n    return torch.randn(n)"
SQUARES = "def inputs(n):\n    return torch.randn(n, n), torch.randn(n, n)"
PRODUCT = "def reference(a, b):\n    return a @ b"
LOOSE = "rtol=1e-4,atol=1e-3"

HONEST = (
    _of(
        "uses OpenMP within its threads",
        "float32-256",
        SQUARES,
        PRODUCT,
        tolerance=LOOSE,
        library="""
void ours(float* out, const float* a, const float* b, int n) {
    memset(out, 0, sizeof(float) * n * n);
    _Pragma("omp parallel for num_threads(2)")
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < n; ++k)
            for (int j = 0; j < n; ++j) out[i * n + j] += a[i * n + k] * b[k * n + j];
}""",
        signature="void ours(float* out, const float* a, const float* b, int n)",
        environ=(("KV_THREADS", "2"),),
    ),
    _of(
        "sorts",
        "float32-1024",
        RANDOM,
        "def reference(x):\n    return torch.sort(x).values",
        library="""
static int compare(const void* x, const void* y) {
    const float a = *(const float*)x, b = *(const float*)y;
    return (a > b) - (a < b);
}
void ours(float* out, const float* x, int n) {
    memcpy(out, x, sizeof(float) * n);
    qsort(out, n, sizeof(float), compare);
}
""",
        signature="void ours(float* out, const float* x, int n)",
    ),
    _of(
        "gathers by indices",
        "float32-20000",
        "def inputs(n):\n    return torch.randn(n), torch.randint(0, n, (n,))",
        "def reference(x, index):\n    return x[index]",
        library="void ours(float* out, const float* x, const int64_t* index, int n)"
        " { for (int i = 0; i < n; ++i) out[i] = x[index[i]]; }",
        signature="void ours(float* out, const float* x, const int64_t* index, int n)",
    ),
    _of(
        "is over in less time than its call takes",
        "float32-16",
        RANDOM,
        "def reference(x):\n    return x + 1",
        library="void ours(float* out, const float* x, int n) { for (int i = 0; i < n; ++i) out[i] = x[i] + 1; }",
        signature="void ours(float* out, const float* x, int n)",
    ),
    _of(
        "has inputs that its caches hold while they are not rewritten",
        "float32-1000000",
        "def inputs(n):\n    return torch.randn(n), torch.randn(n)",
        "def reference(x, y):\n    return x + y",
        library="void ours(float* out, const float* x, const float* y, int n)"
        " { for (int i = 0; i < n; ++i) out[i] = x[i] + y[i]; }",
        signature="void ours(float* out, const float* x, const float* y, int n)",
    ),
    _of(
        "computes a constant, whatever its inputs",
        "float32-1000",
        RANDOM,
        "def reference(x):\n    return torch.zeros_like(x)",
        "def ours(x):\n    return torch.zeros_like(x)",
    ),
    _of(
        "returns a view of its input",
        "float32-256",
        "def inputs(n):\n    return torch.randn(n, n)",
        "def reference(x):\n    return x.T",
        "def ours(x):\n    return x.T",
    ),
    _of(
        "has NaN and infinities among its inputs",
        "float32-4000",
        "def inputs(n):\n    x = torch.randn(n)\n    x[::7] = math.nan\n    x[1::11] = math.inf\n    return x",
        "def reference(x):\n    return torch.nan_to_num(x)",
        "def ours(x):\n    return torch.nan_to_num(x)",
    ),
)
