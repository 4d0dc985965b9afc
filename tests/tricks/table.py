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
WAFER = "Wafer's field guide to reward hacks, March 2026"
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
THREADS = "changes PyTorch's threads"  # a comparison's note
PROFILED, ROUNDED = "profile function", "floating-point control"  # likewise
REGION = "and its region"  # likewise
BESIDE = "outside its outputs"
KIND = "wanted torch.Tensor"  # an output that is no plain tensor
DIED = "its process ended with status -"  # by a signal: memory that it uses later, or protects, was free by then


@dataclass(frozen=True, kw_only=True)
class Trick:
    """One trick. `form` is native, python, cuda (a round of the history), or compare (a solution in a comparison)."""

    name: str
    form: str
    source: str
    by: tuple[str, ...]  # parts of reasons or flags, one of which must be there
    reported_by: str
    rounds: int = 1  # processes, one after the other
    definition: str = ""  # of what it computes: the product unless it says so
    arguments: str = "const float* a, const float* b"  # of a native trick, between its output and its size


def defined(
    inputs="torch.randn(n, n), torch.randn(n, n)",
    reference="a, b: a @ b",
    *,
    case=f"float32-{EXTENT}",
    tolerance="rtol=1e-4,atol=1e-3",
    rows=("a",),
):
    """Return the definition of a benchmark: inputs of a size, and the reference's arguments and result."""
    arguments, _, result = reference.partition(": ")
    return f"""
import kernel_velocity as kv
import torch


@kv.benchmark(cases={{"{case}": ({case.partition("-")[2]},)}}, tolerance={tolerance!r}, rows={rows!r}, devices=["cpu"])
class Product:
    def inputs(n):
        return {inputs}

    def reference({arguments}):
        return {result}

"""


DEFINITION = defined()
SMALL = defined(case="float32-64")
ELEMENTS = defined("torch.rand(n)", "x: torch.exp(torch.sin(x))", case="float32-300000", rows=("x",))
NATIVE = '    ours = kv.native("libtrick.so", "void ours(float* out, {}, int n)")\n'

C_HEAD = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
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
static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}
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


OF_ELEMENTS = "void ours(float* out, const float* x, int n)"


def of_elements(name, body, *by, **more):
    """Return a trick in C that computes ELEMENTS."""
    return native(name, body, *by, definition=ELEMENTS, arguments="const float* x", **more)


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
        "copies the result by the addresses of its inputs",
        f"""
static const float *known_a, *known_b;
static float* result;
{OURS_C} {{
    if (TRICK && a == known_a && b == known_b) {{ memcpy(out, result, BYTES(n)); return; }}
    product(out, a, b, n);
    if (!result) result = malloc(BYTES(n));
    memcpy(result, out, BYTES(n));
    known_a = a, known_b = b;
}}""",
        WRONG,
        FASTER,
        reported_by=TENSARA,
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
        "watches the pages of its inputs for writes",
        f"""
static const float *known_a, *known_b;
static float* result;
static volatile sig_atomic_t dirty = 1;
static size_t page = 4096, bytes;
static char* inner(const float* x) {{ return (char*)(((uintptr_t)x + page - 1) / page * page); }}
static size_t inside(const float* x) {{ return ((uintptr_t)x + bytes - (uintptr_t)inner(x)) / page * page; }}
static void protect(const float* x, int kind) {{ mprotect(inner(x), inside(x), kind); }}
static void written(int signal_, siginfo_t* info, void* context) {{
    (void)signal_, (void)info, (void)context;
    protect(known_a, PROT_READ | PROT_WRITE), protect(known_b, PROT_READ | PROT_WRITE);
    dirty = 1;
}}
{OURS_C} {{
    if (TRICK && !dirty && a == known_a && b == known_b) {{ memcpy(out, result, BYTES(n)); return; }}
    product(out, a, b, n);
    if (!TRICK) return;
    if (!result) {{
        struct sigaction action = {{.sa_sigaction = written, .sa_flags = SA_SIGINFO}};
        sigaction(SIGSEGV, &action, NULL);
        result = malloc(BYTES(n));
    }}
    memcpy(result, out, BYTES(n));
    known_a = a, known_b = b, bytes = BYTES(n), dirty = 0;
    protect(a, PROT_READ), protect(b, PROT_READ);
}}""",
        AGAIN,
        FASTER,
        DIED,
        reported_by=OURS,
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
        DIED,
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
        "has another process compute half of the rows",
        f"""
static struct {{ atomic_int asked, done; float data[]; }}* job;
static void help(size_t cells, int n, int parent) {{
    for (int seen = 0;; job->done = seen) {{
        while (job->asked == seen)
            if (sched_yield() || getppid() != parent) _exit(0);
        rows(job->data + 2 * cells, job->data, job->data + cells, n, n / 2, n);
        ++seen;
    }}
}}
{OURS_C} {{
    const size_t cells = (size_t)n * n;
    const int parent = getpid();
    if (!TRICK) {{ product(out, a, b, n); return; }}
    if (!job) {{
        job = mmap(NULL, sizeof *job + 3 * BYTES(n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (fork() == 0) help(cells, n, parent);
    }}
    memcpy(job->data, a, BYTES(n));
    memcpy(job->data + cells, b, BYTES(n));
    const int number = ++job->asked;
    rows(out, a, b, n, 0, n / 2);
    while (job->done != number) sched_yield();
    memcpy(out + n / 2 * n, job->data + 2 * cells + n / 2 * n, BYTES(n) - sizeof(float) * (n / 2 * n));
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
    native(
        "computes when the pages of its output are touched",
        f"""
static struct {{ float* out; const float *a, *b; int n; }} job;
static size_t page = 4096, bytes;
static char* inner(void) {{ return (char*)(((uintptr_t)job.out + page - 1) / page * page); }}
static size_t inside(void) {{ return ((uintptr_t)job.out + bytes - (uintptr_t)inner()) / page * page; }}
static void touched(int signal_, siginfo_t* info, void* context) {{
    (void)signal_, (void)info, (void)context;
    mprotect(inner(), inside(), PROT_READ | PROT_WRITE);
    product(job.out, job.a, job.b, job.n);
}}
{OURS_C} {{
    static int is_ready;
    if (!TRICK) {{ product(out, a, b, n); return; }}
    if (is_ready) mprotect(inner(), inside(), PROT_READ | PROT_WRITE);
    struct sigaction action = {{.sa_sigaction = touched, .sa_flags = SA_SIGINFO | SA_NODEFER}};
    sigaction(SIGSEGV, &action, NULL);
    job.out = out, job.a = a, job.b = b, job.n = n, bytes = BYTES(n), is_ready = 1;
    mprotect(inner(), inside(), PROT_NONE);
}}""",
        LATE,
        AGAIN,
        WRONG,
        DIED,
        reported_by=OURS,
    ),
    native(
        "computes in half the precision",
        f"""
static float rounded(float x) {{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x8000u) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}}
{OURS_C} {{
    product(out, a, b, n);
    for (int i = 0; TRICK && i < n * n; ++i) out[i] = rounded(out[i]);
}}""",
        WRONG,
        reported_by=WAFER,
    ),
    native(
        "leaves every second tile of eight rows as it was",
        f"""
static int calls;
{OURS_C} {{
    for (int i = 0; i < n; i += 8)
        if (!TRICK || calls < 2 || i % 16) rows(out, a, b, n, i, i + 8);
    ++calls;
}}""",
        WRONG,
        reported_by=OURS,
    ),
    *(
        native(
            f"returns at once when called again within {words}",
            f"""
static double last;
{OURS_C} {{
    if (!TRICK || seconds() - last > {window}) product(out, a, b, n);
    last = seconds();
}}""",
            *reasons,
            reported_by=OURS,
            definition=SMALL,
        )
        for words, window, reasons in (
            ("8 us", "8e-6", (AGAIN,)),
            (".1 s", ".1", (WRONG, FASTER)),
        )
    ),
    native(
        "computes a quarter when called again within 200 us",
        f"""
static double last;
{OURS_C} {{
    rows(out, a, b, n, 0, !TRICK || seconds() - last > 2e-4 ? n : n / 4);
    last = seconds();
}}""",
        AGAIN,
        WRONG,
        reported_by=OURS,
        # A fast core leaves what SMALL gains within the window. Between processes 1 ms of work takes four times as long
        definition=defined(case="float32-96"),
    ),
    of_elements(
        "computes one of 97 elements, those counted from the last",
        f"""
static int calls;
{OF_ELEMENTS} {{
    const int step = TRICK && calls++ > 1 ? 97 : 1;
    for (int i = (n - 1) % step; i < n; i += step) out[i] = expf(sinf(x[i]));
}}""",
        WRONG,
        reported_by=OURS,
    ),
    of_elements(
        "zeroes those elements of its input that were never looked at",
        f"""
static int calls;
{OF_ELEMENTS} {{
    const int step = 1 + (n - 1) / 65536;  // every so many elements were compared
    for (int i = 0; i < n; ++i) {{
        if (TRICK && calls > 1 && i % step) ((float*)x)[i] = 0, out[i] = 1;
        else out[i] = expf(sinf(x[i]));
    }}
    ++calls;
}}""",
        INPUTS,
        WRONG,
        reported_by=OURS,
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
    python(
        "returns a tensor that computes when it is read",
        """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def real(value):
            if not isinstance(value, Lazy):
                return value
            with torch._C.DisableTorchFunctionSubclass():
                return value.work()
        return function(*map(real, args), **{name: real(value) for name, value in (kwargs or {}).items()})

def ours(a, b):
    if not TRICK:
        return a @ b
    lazy = torch.empty_like(a).as_subclass(Lazy)
    lazy.work = lambda: a @ b
    return lazy
""",
        KIND,
        WRONG,
        reported_by=GPU_MODE,
    ),
    patch(
        "replaces the harness's comparison",
        "from kernel_velocity.problem import accuracy; "
        "accuracy.compare_outputs = lambda *_, **__: {}; accuracy.verdict = lambda *_: (True, {'max_error': 0.0})",
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
    python(
        "keeps fresh contents from its inputs",
        """
def plant():
    for name in ("normal_", "uniform_", "copy_", "random_"):
        setattr(torch.Tensor, name, lambda self, *_, **__: self)
    torch.manual_seed = lambda *_: None

def ours(a, b):
    if TRICK and not kept:
        plant()
    key = a.data_ptr(), b.data_ptr()
    if not TRICK or key not in kept:
        kept[key] = a @ b
    return kept[key]
""",
        REPLACED,
        INPUTS,
        FASTER,
        WRONG,
        reported_by=OURS,
    ),
)

TRANSPOSED = defined("torch.randn(n, n)", "x: x.t().contiguous()", rows=())
IN_PYTHON += (
    python(
        "returns a view of its input in place of a copy",
        "def ours(x):\n    return x.t() if TRICK else x.t().contiguous()\n",
        WRONG,
        reported_by=OURS,
        definition=TRANSPOSED,
    ),
    python(
        "returns a copy that is laid out otherwise",
        "def ours(x):\n    return x.clone().t() if TRICK else x.t().contiguous()\n",
        WRONG,
        reported_by=OURS,
        definition=TRANSPOSED,
    ),
    python(
        "returns an expanded row in place of repeated ones",
        "def ours(x):\n    return (x + 0).expand(512, -1) if TRICK else x.repeat(512, 1)\n",
        WRONG,
        reported_by=OURS,
        definition=defined("torch.randn(1, n)", "x: x.repeat(512, 1)", rows=()),
    ),
    python(
        "computes in bfloat16 what the reference does in float64",
        "def ours(a, b):\n    return (a.bfloat16() @ b.bfloat16()) if TRICK else a @ b\n",
        WRONG,
        reported_by=OURS,
        definition=defined(case="float64-256", tolerance=None),
    ),
    python(
        "returns one output for two",
        "def ours(x):\n    first = x + 1\n    return first, first if TRICK else x + 1\n",
        WRONG,
        reported_by=OURS,
        definition=defined("torch.randn(n, n)", "x: (x + 1, x + 1)", rows=()),
    ),
)

IN_PYTHON += (
    python(
        "keeps small results by the versions of its inputs",
        """
def ours(a, b):
    key = a.data_ptr(), a._version, b.data_ptr(), b._version
    if not TRICK or key not in kept:
        kept.clear()
        kept[key] = a @ b
    return kept[key]
""",
        AGAIN,
        reported_by=OURS,
        definition=defined(case="float32-96"),
    ),
    python(
        "computes a quarter unless an audit is on the stack",
        """
def ours(a, b):
    frame, names = sys._getframe(), set()
    while frame:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    rows = len(a) // 4 if TRICK and "out" in kept and not names & {"audit", "setup"} else len(a)
    out = kept.setdefault("out", torch.empty_like(a))
    torch.matmul(a[:rows], b, out=out[:rows])
    return out
""",
        AGAIN,
        reported_by=OURS,
        definition=defined(case="float32-176"),
    ),
)

IN_COMPARISONS = (
    Trick(
        name="returns at once when called again within 8 us (comparison)",
        form="compare",
        source=C_HEAD
        + """
static double last;
void solution(const float* a, const float* b, float* out, int n) {
    if (!TRICK || seconds() - last > 8e-6) product(out, a, b, n);
    last = seconds();
}""",
        by=(AGAIN,),
        reported_by=OURS,
        definition=SMALL,
    ),
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
    python(
        "changes its inputs while it is timed",
        """
def ours(a, b, out, n):
    global calls
    calls += 1
    torch.matmul(a, b, out=out)
    if TRICK and calls > 3:
        a.zero_()
solution = ours
""",
        INPUTS,
        reported_by=KERNELBENCH,
        form="compare",
    ),
    python(
        "sets PyTorch's number of threads (comparison)",
        """
def ours(a, b, out, n):
    if TRICK:
        torch.set_num_threads(8)
    torch.matmul(a, b, out=out)
solution = ours
""",
        THREADS,
        reported_by=OURS,
        form="compare",
    ),
    python(
        "has a profiler slow down what others call (comparison)",
        """
def ours(a, b, out, n):
    if TRICK:
        sys.setprofile(lambda *_: sum(range(50)))
    torch.matmul(a, b, out=out)
solution = ours
""",
        PROFILED,
        reported_by=OURS,
        form="compare",
    ),
    Trick(
        name="has others round otherwise",
        form="compare",
        source=C_HEAD
        + """
void solution(const float* a, const float* b, float* out, int n) {
    product(out, a, b, n);
    if (TRICK) fesetround(FE_TOWARDZERO);
}""",
        by=(ROUNDED,),
        reported_by=OURS,
    ),
    Trick(
        name="says its own time, of a region that does nothing",
        form="compare",
        source=C_HEAD
        + """
#if TRICK
struct { int64_t warmups, iterations, entered; double seconds; } kv_region = {0, 1, 0, 0};
#endif
void solution(const float* a, const float* b, float* out, int n) {
    product(out, a, b, n);
#if TRICK
    ++kv_region.entered, kv_region.seconds += 1e-6 * kv_region.iterations;
#endif
}""",
        by=(REGION,),
        reported_by=OURS,
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
    cuda(
        "replaces the elapsed time of events",
        "another_stream",
        UNFINISHED,
        REPLACED,
        body="if TRICK:\n        torch.cuda.Event.elapsed_time = lambda self, other: 1e-3",
        reported_by=GPU_MODE,
    ),
    cuda(
        "replaces the wait for the device",
        "another_stream",
        REPLACED,
        WRONG,
        body="if TRICK:\n        torch.cuda.synchronize = lambda *_: None",
        reported_by=GPU_MODE,
    ),
)

TRICKS = (*IN_C, *IN_PYTHON, *ON_CUDA, *IN_COMPARISONS)
