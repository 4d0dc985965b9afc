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
        "keeps a plan and a workspace by shape, and packs its weights in each call",
        "float32-128",
        SQUARES,
        PRODUCT,
        tolerance=LOOSE,
        library="""
static float* workspace;
static int planned, block;
void ours(float* out, const float* a, const float* b, int n) {
    if (planned != n) {
        for (block = 1; block * 2 <= n && block < 64; block *= 2) {}
        workspace = realloc(workspace, sizeof(float) * n * n);
        planned = n;
    }
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) workspace[j * n + i] = b[i * n + j];
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int from = 0; from < n; from += block)
                for (int k = from; k < n && k < from + block; ++k) sum += a[i * n + k] * workspace[j * n + k];
            out[i * n + j] = sum;
        }
}""",
        signature="void ours(float* out, const float* a, const float* b, int n)",
    ),
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
        "solves with a positive definite matrix",
        "float64-64",
        "def inputs(n):\n    root = torch.randn(n, n)\n    return root @ root.T + n * torch.eye(n), torch.randn(n)",
        "def reference(a, b):\n    return torch.linalg.solve(a, b)",
        "def ours(a, b):\n    return torch.cholesky_solve(b[:, None], torch.linalg.cholesky(a))[:, 0]",
        tolerance="1e-8",
    ),
    _of(
        "takes views of one tensor, an expanded one among them",
        "float32-256",
        "def inputs(n):\n    x = torch.randn(n + 1, n)\n    return x[:n], x[1:].T, x[0].expand(n, n)",
        "def reference(a, b, bias):\n    return a @ b + bias",
        "def ours(a, b, bias):\n    return torch.addmm(bias, a, b)",
        tolerance=LOOSE,
    ),
    _of(
        "takes bytes",
        "int8-100000",
        "def inputs(n):\n    return torch.randint(-128, 128, (n,), dtype=torch.int8)",
        "def reference(x):\n    return x.float() / 127",
        library="void ours(float* out, const int8_t* x, int n) { for (int i = 0; i < n; ++i) out[i] = x[i] / 127.0f; }",
        signature="void ours(float* out, const int8_t* x, int n)",
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
        "branches at random, which a processor learns",
        "float32-4000",
        RANDOM,
        "def reference(x):\n    return torch.where(x > 0, 2 * x, x / 2)",
        library="""
void ours(float* out, const float* x, int n) {
    for (int i = 0; i < n; ++i) {
        float value = x[i];
        if (value > 0) { value *= 2; __asm__ volatile("" : "+x"(value)); }
        else { value /= 2; __asm__ volatile("" : "+x"(value)); }
        out[i] = value;
    }
}""",
        signature="void ours(float* out, const float* x, int n)",
    ),
)
