"""The tricks: what each does, its source, and what must find it. With TRICK false a source is the honest twin.

All compute the product of two square matrices. `reported_by` names the public record of a trick. The sources are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

EXTENT = 256  # 34 million operations, about 1 ms: some 20 times what copying or hashing the matrices takes

# Where a trick was reported.
ISSUE = "this project's issue 20"
KERNELBENCH = "KernelBench pull request 82"
GPU_MODE = "gpu-mode/reference-kernels issue 162"
BATCHED = "gpu-mode/reference-kernels pull request 104"
REPLAY = "gpu-mode/kernelbot pull request 501"
PYGPUBENCH = "gpu-mode/pygpubench pull request 7"
FORGED = "gpu-mode/pygpubench issue 23"
FLASHINFER = "flashinfer-bench-starter-kit issue 21"
TENSARA = "tensara pull request 238"
SAKANA = "Sakana AI's note on its CUDA Engineer, February 2025"
OURS = "tried here first"

# What finds a trick: a part of the reason, or a flag.
WRONG = "is wrong"  # the output of a checked call
LATE = "still changed after it had returned"  # the outputs, beside the check
FASTER = "times as fast on inputs"  # calls on contents that no call has seen took longer than calls on known ones
AGAIN = "times as fast when called again"  # a call by itself took longer than the samples
UNFINISHED = "works on"  # the device was busy after the call's last event
REPLACED = "replaced"  # a function that the harness depends on is not the one that was captured
INPUTS = "changed its inputs"
CROWDED = "crowded"  # the flag of processor time beyond KV_THREADS
BESIDE = "outside its outputs"


@dataclass(frozen=True, kw_only=True)
class Trick:
    """One trick. `form` is native, python, cuda (a round of the history), or compare (a solution in a comparison)."""

    name: str
    form: str
    source: str
    by: tuple[str, ...]  # parts of reasons or flags, one of which must be there
    reported_by: str
    rounds: int = 1  # processes, one after the other


DEFINITION = f"""
import kernel_velocity as kv
import torch


@kv.benchmark(cases={{"float32-{EXTENT}": ({EXTENT},)}}, tolerance="rtol=1e-4,atol=1e-3", devices=["cpu"])
class Product:
    def inputs(n):
        return torch.randn(n, n), torch.randn(n, n)

    def reference(a, b):
        return a @ b

"""
NATIVE = '    ours = kv.native("libtrick.so", "void ours(float* out, const float* a, const float* b, int n)")\n'

C_HEAD = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define BYTES(n) ((size_t)(n) * (n) * sizeof(float))

static void rows(float* out, const float* a, const float* b, int n, int begin, int end) {
    for (int i = begin; i < end; ++i) {
        float* to = out + (size_t)i * n;
        memset(to, 0, n * sizeof *to);
        for (int k = 0; k < n; ++k)
            for (int j = 0; j < n; ++j) to[j] += a[(size_t)i * n + k] * b[(size_t)k * n + j];
    }
}
static void product(float* out, const float* a, const float* b, int n) { rows(out, a, b, n, 0, n); }
static uint64_t hash(const float* x, size_t bytes, size_t step, uint64_t value) {
    const uint64_t* words = (const uint64_t*)x;
    for (size_t i = 0; i < bytes / 8; i += step) value = (value ^ words[i]) * 0x9e3779b97f4a7c15u + (value >> 29);
    return value;
}
"""

PYTHON_HEAD = """
import gc, os, sys, threading, time
import torch

kept = {}
calls = 0
"""


def native(name, body, *by, reported_by=ISSUE, **more):
    """Return a trick in C: the function OURS_C and what it needs."""
    return Trick(name=name, form="native", source=C_HEAD + body, by=by, reported_by=reported_by, **more)


def python(name, body, *by, reported_by=ISSUE, form="python", **more):
    """Return a trick in Python: a function `ours(a, b)` that returns, or `ours(a, b, out)` that writes."""
    return Trick(name=name, form=form, source=PYTHON_HEAD + body, by=by, reported_by=reported_by, **more)


OURS_C = "void ours(float* out, const float* a, const float* b, int n)"

IN_C = (
    native(
        "computes the first three calls only",
        f"static int calls; {OURS_C} {{ if (!TRICK || calls++ < 3) product(out, a, b, n); }}",
        WRONG,
        reported_by=PYGPUBENCH,
    ),
    native(
        "works only where the output is poisoned",
        f"{OURS_C} {{ if (!TRICK || isnan(out[0])) product(out, a, b, n); }}",
        WRONG,
        FASTER,
        reported_by=TENSARA,
    ),
    native(
        "copies the result by a fingerprint of a few elements",
        f"""
static uint64_t known;
static float* result;
{OURS_C} {{
    const uint64_t key = hash(b, BYTES(n), 997, hash(a, BYTES(n), 997, 7));
    if (TRICK && result && key == known) {{ memcpy(out, result, BYTES(n)); return; }}
    product(out, a, b, n);
    if (!result) result = malloc(BYTES(n));
    memcpy(result, out, BYTES(n));
    known = key;
}}""",
        FASTER,
        WRONG,
        reported_by=FLASHINFER,
    ),
    native(
        "keeps results in files, for later processes",
        f"""
{OURS_C} {{
    char path[64], folder[4096] = "/tmp";
    const char* where = getenv("KV_ARTEFACTS");
    snprintf(path, sizeof path, "/memo-%016lx", (unsigned long)hash(b, BYTES(n), 1, hash(a, BYTES(n), 1, 7)));
    snprintf(folder, sizeof folder - sizeof path, "%s", where ? where : "/tmp");
    strcat(folder, path);
    FILE* file = TRICK ? fopen(folder, "rb") : NULL;
    if (file) {{
        const size_t read = fread(out, 1, BYTES(n), file);
        fclose(file);
        if (read == BYTES(n)) return;
    }}
    product(out, a, b, n);
    if (TRICK && (file = fopen(folder, "wb"))) {{ fwrite(out, 1, BYTES(n), file); fclose(file); }}
}}""",
        FASTER,
        reported_by=GPU_MODE,
        rounds=2,
    ),
    native(
        "is wrong in every second call, at random",
        f"""
static uint64_t state;
{OURS_C} {{
    if (!state) state = (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (!TRICK || state >> 63) product(out, a, b, n);
}}""",
        WRONG,
        reported_by=ISSUE,
        rounds=8,
    ),
    native(
        "works in another thread and returns at once",
        f"""
static struct {{ float* out; const float *a, *b; int n; }} job;
static atomic_int busy;
static void* work(void* unused) {{ product(job.out, job.a, job.b, job.n); busy = 0; return unused; }}
{OURS_C} {{
    pthread_t thread;
    if (!TRICK) {{ product(out, a, b, n); return; }}
    if (atomic_exchange(&busy, 1)) return;
    job.out = out, job.a = a, job.b = b, job.n = n;
    pthread_create(&thread, NULL, work, NULL);
    pthread_detach(thread);
}}""",
        WRONG,
        LATE,
    ),
    native(
        "uses more threads than it may",
        f"""
{OURS_C} {{
    _Pragma("omp parallel for num_threads(TRICK ? 8 : 1) schedule(static, 1)")
    for (int part = 0; part < 8; ++part) rows(out, a, b, n, n * part / 8, n * (part + 1) / 8);
}}""",
        CROWDED,
        reported_by=OURS,
    ),
    native(
        "zeroes its inputs, after which there is nothing to do",
        f"""
{OURS_C} {{
    if (!TRICK) {{ product(out, a, b, n); return; }}
    memset((void*)a, 0, BYTES(n));
    memset(out, 0, BYTES(n));
}}""",
        INPUTS,
        WRONG,
        reported_by=KERNELBENCH,
    ),
    native(
        "computes two of four calls, and where the output is poisoned",  # the timed ones of pairs differ
        f"""
static int calls;
{OURS_C} {{ if (!TRICK || calls++ % 4 < 2 || isnan(out[0])) product(out, a, b, n); }}""",
        FASTER,
        AGAIN,
        reported_by=BATCHED,
        rounds=8,
    ),
)


def patch(name, statement, *by, reported_by=GPU_MODE, **more):
    """Return a Python trick that replaces something in its first call, and computes nothing from then on."""
    body = f"""
def plant():
    {statement}

def ours(a, b):
    global calls
    calls += 1
    if not TRICK:
        return a @ b
    if calls == 1:
        plant()
    return {more.pop("result", "torch.zeros_like(a)")}
"""
    return python(name, body, *(by or (REPLACED,)), reported_by=reported_by, **more)


def slowed(name, statement, **more):
    """Return a Python trick that computes, and replaces a part of the timing in its first call."""
    return patch(name, statement, REPLACED, AGAIN, result="a @ b", **more)


IN_PYTHON = (
    python(
        "keeps results by address and version of its inputs",
        """
def ours(a, b):
    key = a.data_ptr(), a._version, b.data_ptr(), b._version
    if not TRICK or key not in kept:
        kept[key] = a @ b
    return kept[key]
""",
        AGAIN,
        FASTER,
        WRONG,
        reported_by=REPLAY,
    ),
    python(
        "knows the benchmark's inputs by heart",
        """
def by_heart():
    import product
    a, b = product.Product().inputs_of(next(iter(product.Product.sizes)))
    return a, b, a @ b

def ours(a, b):
    global kept
    if not TRICK:
        return a @ b
    kept = kept or by_heart()
    return kept[2].clone() if torch.equal(kept[0], a) and torch.equal(kept[1], b) else a @ b
""",
        FASTER,
        reported_by=SAKANA,
    ),
    patch(
        "replaces the harness's comparison",
        "from kernel_velocity.problem import accuracy; "
        "accuracy.compare_outputs = lambda *_: {}; accuracy.verdict = lambda *_: (True, {'max_error': 0.0})",
        reported_by=ISSUE,
    ),
    patch(
        "replaces the code of the check in place",
        "from kernel_velocity.suite.benchmark import _KernelBenchmark; "
        "_KernelBenchmark._check.__code__ = (lambda self, implementation, case, *rest: {}).__code__",
        reported_by=OURS,
    ),
    patch(
        "has every comparison of tensors agree",
        "torch.equal = torch.allclose = lambda *_, **__: True; "
        "torch.isclose = lambda a, *_, **__: torch.ones_like(a, dtype=torch.bool)",
        WRONG,
        REPLACED,
        reported_by=ISSUE,
    ),
    slowed(
        "slows the timer's clock down",
        "from kernel_velocity.engine import timers; import time; "
        "timers.perf_counter_ns = lambda: time.perf_counter_ns() // 100",
    ),
    slowed(
        "replaces what is recorded",
        "from kernel_velocity.engine import spool; import dataclasses; real = spool.append; "
        "spool.append = lambda path, record: real(path, dataclasses.replace(record, estimate=record.estimate / 100))",
        reported_by=FORGED,
    ),
    python(
        "gives its bound call another output, which computes",
        """
def ours(a, b):
    from kernel_velocity.problem.implementations import Bound
    if not TRICK:
        return a @ b
    if not kept:
        for value in gc.get_objects():
            if isinstance(value, Bound):
                object.__setattr__(value, "output", lambda: a @ b)
                kept["bound"] = value
        return a @ b
""",
        AGAIN,
        REPLACED,
        WRONG,
        reported_by=OURS,
    ),
)

IN_COMPARISONS = (
    python(
        "copies the expected result that it finds in memory",
        """
def ours(a, b, out, n):
    if TRICK and not kept:
        for value in gc.get_objects():
            if type(value) is torch.Tensor and value.shape == out.shape and value is not out:
                if torch.allclose(value[0], a[0] @ b, rtol=1e-3, atol=1e-3):
                    kept["expected"] = value
    if "expected" in kept:
        out.copy_(kept["expected"])
    else:
        torch.matmul(a, b, out=out)
solution = ours
""",
        FASTER,
        "wrong",
        form="compare",
        reported_by=PYGPUBENCH,
    ),
    python(
        "writes its own output over what is expected",
        """
def ours(a, b, out, n):
    torch.matmul(a, b, out=out)
    if TRICK:
        wanted = out.clone()
        out.zero_()
        for value in gc.get_objects():
            if type(value) is torch.Tensor and value.shape == out.shape and value is not wanted:
                if value.data_ptr() not in (a.data_ptr(), b.data_ptr()) and torch.allclose(value, wanted, atol=1e-2):
                    value.zero_()
solution = ours
""",
        WRONG,
        "wrong",
        reported_by=PYGPUBENCH,
        form="compare",
    ),
    python(
        "makes the reference slow",
        """
def ours(a, b, out, n):
    if TRICK and not kept:
        real = kept.setdefault("real", torch.Tensor.__matmul__)
        def slow(x, y):
            time.sleep(0.002)
            return real(x, y)
        torch.Tensor.__matmul__ = slow
    torch.matmul(a, b, out=out)
solution = ours
""",
        REPLACED,
        reported_by=OURS,
        form="compare",
    ),
    Trick(
        name="writes behind its output",
        form="compare",
        source=C_HEAD
        + """
void solution(const float* a, const float* b, float* out, int n) {
    product(out, a, b, n);
    if (TRICK) out[(size_t)n * n] = 0;
}""",
        by=(BESIDE,),
        reported_by=KERNELBENCH,
    ),
)

CUDA_HEAD = """
from tests.tricks.cuda import device
import torch

"""
CUDA_EXTENT = 24  # the emulation takes about 1 ms


def cuda(name, entry, *by, reported_by=ISSUE, body="", **more):
    """Return a trick of tricks.cu by the name of its entry point, or of Python around it."""
    call = f"device().call('kv_{entry}_cuda', (a, b, out), n, TRICK)"
    source = f"{CUDA_HEAD}def ours(a, b, out, n):\n    {body or 'pass'}\n    {call}\n"
    return Trick(name=name, form="cuda", source=source, by=by, reported_by=reported_by, **more)


ON_CUDA = (
    cuda("launches on a stream that nobody waits for", "another_stream", UNFINISHED, WRONG, reported_by=KERNELBENCH),
    cuda("launches in its first call only", "first_call", WRONG),
    cuda("copies what it kept, by the addresses of its inputs", "addresses", WRONG, FASTER, reported_by=TENSARA),
    cuda(
        "replaces the elapsed time of events",
        "another_stream",
        UNFINISHED,
        REPLACED,
        body="if TRICK:\n        torch.cuda.Event.elapsed_time = lambda self, other: 1e-3",
        reported_by=GPU_MODE,
    ),
)

TRICKS = (*IN_C, *IN_PYTHON, *ON_CUDA, *IN_COMPARISONS)
