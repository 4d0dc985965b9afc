"""Count what one call of a C function executes, under valgrind's callgrind: exact, and the same on a busy machine.

A small C program (driver.c, below) loads the library, calls the function once, reads memory that is larger than the
simulated caches, and calls it again from `kv_counted`. That second call is counted, with all that it calls, and nothing
else: caches are cold, and what a library does once is done. Python would not do: callgrind books what ctypes calls on
libffi.

Fixed, so that counts carry between machines of one valgrind: the CPU that valgrind shows (AVX2, no AVX-512), the caches
that it simulates, bound symbols, memcpy and memset without `rep` (which counts an instruction a byte), one thread, the
environment, and how memory and stack lie in the caches.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kernel_velocity.counts import listing
from kernel_velocity.counts.c_call import CCall, NotCountedError
from kernel_velocity.files import replace_text
from kernel_velocity.names import COUNTED_ON, COUNTS
from kernel_velocity.processes import RUN

METHOD = "callgrind1"  # part of the version of a series. Raise the number with anything below that changes counts
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64")  # bytes, ways, bytes of a line
ENVIRONMENT: Mapping[str, str] = {
    "LD_BIND_NOW": "1",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-ERMS",
    **dict.fromkeys(("KV_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
}
LONGEST = 60  # s of processor for a count, however busy the machine is: 10^9 instructions, two calls
COUNTED = "kv_counted"  # the function of the driver
INSTALL = "valgrind is not installed: `apt-get install valgrind`"
_SUMS = {  # of what callgrind counts
    "instructions": ("Ir",),
    "reads": ("Dr",),
    "writes": ("Dw",),
    "l1_misses": ("D1mr", "D1mw"),
    "ll_misses": ("DLmr", "DLmw"),
}
_NO_LIBRARY, _NO_FUNCTION, _HAS_STATUS, _NO_MEMORY = 91, 92, 93, 94  # exit statuses of the driver
_UNKNOWN_CODE = re.compile(r"unhandled instruction bytes: ([^\n]*)|Unrecognised instruction")
_DRIVER = r"""
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
enum { PLACE = 1 << 19, EVICTED = 16 << 20 };  /* bytes: what a way of the largest cache holds; twice that cache */
static @result@ (*kernel)(@types@);
static char *memory;
static volatile int status;
static volatile char read_of;
__attribute__((noinline)) void kv_once(void) { @call@ }
__attribute__((noinline)) void kv_counted(void) { @call@ }
static char *aligned(size_t bytes) {
    char *begin = mmap(0, bytes + PLACE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return begin == MAP_FAILED ? 0 : begin + (PLACE - (uintptr_t)begin % PLACE) % PLACE;
}
static void __attribute__((noinline)) at_a_fixed_place_of_the_stack(const char *others) {
    volatile char *space = alloca(1 + (uintptr_t)__builtin_frame_address(0) % PLACE);
    space[0] = 0;
    for (int i = 0; i < EVICTED; i += 64) read_of = others[i];
    kv_counted();
}
int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), @no_library@;
    *(void **)&kernel = dlsym(library, arguments[2]);
    if (!kernel) return fprintf(stderr, "%s\n", dlerror()), @no_function@;
    const char *others = aligned(EVICTED);
    memory = aligned(@bytes@);
    int file = open(arguments[3], O_RDONLY);
    if (!others || !memory) return @no_memory@;
    for (size_t at = 0; at < @bytes@;) {
        ssize_t got = read(file, memory + at, @bytes@ - at);
        if (got <= 0) return @no_memory@;
        at += got;
    }
    kv_once();
    if (!status) at_a_fixed_place_of_the_stack(others);
    if (status) return fprintf(stderr, "%d\n", status), @has_status@;
    return 0;
}
"""


class CountError(RuntimeError):
    """A count that cannot be right."""


class Execution(NamedTuple):
    """What a call executes."""

    counts: dict[str, int]  # by the names of COUNTS
    code: str  # the functions of its library that ran, as listing.py writes them


def count(call: CCall, cache: Path) -> Execution:
    """Return what one call executes.

    Args:
        cache: a folder for results: the same code on the same data is counted once.

    Raises:
        NotCountedError: no valgrind or C compiler, another CPU, or the call cannot be made under valgrind: n/a.
        CountError: callgrind saw no instruction of the call.
    """
    valgrind, version = _valgrind()
    source = _driver(call)
    result_file = cache / f"{_key(call, source, version)}.json"
    with suppress(OSError, ValueError, TypeError, AttributeError):
        counts, code = json.loads(result_file.read_text(encoding="ascii"))
        if counts.keys() == set(COUNTS) and all(type(n) is int for n in counts.values()) and isinstance(code, str):
            return Execution(counts, code)
    with tempfile.TemporaryDirectory(prefix="kv-counts-") as folder:
        _compile(source, Path(folder))
        Path(folder, "data").write_bytes(call.memory)
        execution = _parsed(_run(valgrind, call, Path(folder)), call)
    replace_text(result_file, json.dumps(execution))
    return execution


def counted_by() -> dict[str, str]:
    """Return what counts here, by name: the method, valgrind's version and the settings. {} without valgrind."""
    try:
        _, version = _valgrind()
    except NotCountedError:
        return {}
    settings = " ".join([*CACHES, *(f"{name}={value}" for name, value in ENVIRONMENT.items())])
    return {"method": METHOD, "valgrind": version, "settings": settings}


def check() -> None:
    """Raise NotCountedError where nothing can be counted on this machine."""
    _valgrind()
    _compiler()


@lru_cache
def _valgrind() -> tuple[str, str]:
    """Return the program and its version."""
    if platform.machine() != "x86_64" or COUNTED_ON not in _cpu_flags():
        raise NotCountedError(f"counts need an x86-64 CPU with {COUNTED_ON.upper()} (this is {platform.machine()})")
    program = shutil.which("valgrind")
    if program is None:
        raise NotCountedError(INSTALL)
    done = subprocess.run([program, "--version"], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise NotCountedError(f"{program} --version ends with status {done.returncode}: {_last(done.stderr)}")
    return program, done.stdout.strip().removeprefix("valgrind-")


def _cpu_flags() -> list[str]:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("flags"):
                return line.partition(":")[2].split()
    return []


def _compiler() -> str:
    program = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if program is None:
        raise NotCountedError("no C compiler found (cc, gcc, clang): install one, for example `apt install gcc`")
    return program


def _driver(call: CCall) -> str:
    """Return the C program that makes a call."""
    made = f"kernel({', '.join(value for _, value in call.arguments)});"
    # What is behind the call keeps it one: a jump to the kernel would not be booked on it
    parts = {
        "result": call.result,
        "types": ", ".join(kind for kind, _ in call.arguments) or "void",
        "call": f"status = {made}" if call.result == "int" else f'{made} __asm__ volatile("" ::: "memory");',
        "bytes": f"{len(call.memory)}UL",
        "no_library": str(_NO_LIBRARY),
        "no_function": str(_NO_FUNCTION),
        "has_status": str(_HAS_STATUS),
        "no_memory": str(_NO_MEMORY),
    }
    source = _DRIVER
    for name, text in parts.items():
        source = source.replace(f"@{name}@", text)
    return source


def _key(call: CCall, source: str, version: str) -> str:
    """Return the hash of all that a count depends on: code, data, method."""
    parts = [METHOD, version, repr(CACHES), repr(ENVIRONMENT), " ".join(platform.libc_ver()), source, call.symbol]
    digest = hashlib.sha256("\0".join(parts).encode())
    for path in _libraries(call.library):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    digest.update(call.memory)
    return digest.hexdigest()


def _libraries(library: Path) -> Iterator[Path]:
    """Yield a library and the others of its folder, some of which it may load."""
    yield library
    yield from sorted(path for path in library.parent.glob("*.so*") if path != library and path.is_file())


def _compile(source: str, folder: Path) -> None:
    Path(folder, "driver.c").write_text(source, encoding="ascii")
    command = [_compiler(), "-O1", "-fno-optimize-sibling-calls", "-o", "driver", "driver.c", "-ldl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise NotCountedError(f"{command[0]} does not compile the program that calls the kernel: {_last(done.stderr)}")


def _run(valgrind: str, call: CCall, folder: Path) -> str:
    """Run the driver under callgrind. Return what callgrind wrote.

    Raises:
        NotCountedError: the call cannot be made there.
    """
    options = ["-q", "--tool=callgrind", f"--toggle-collect={COUNTED}", "--cache-sim=yes", *CACHES]
    options += ["--dump-instr=yes", "--compress-strings=no", "--compress-pos=no", "--callgrind-out-file=counted"]
    inherited = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", RUN) if name in os.environ}
    limited = ["/bin/sh", "-c", f'ulimit -S -t {LONGEST}; exec "$0" "$@"']
    done = subprocess.run(
        [*limited, valgrind, *options, "./driver", str(call.library), call.symbol, "data"],
        cwd=folder,
        env={**ENVIRONMENT, **inherited},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise NotCountedError(_why(call, done.returncode, done.stderr))
    return Path(folder, "counted").read_text(encoding="utf-8", errors="replace")


def _why(call: CCall, status: int, errors: str) -> str:
    """Return why the driver failed, in a line."""
    name, last = f"{call.symbol} of {call.library.name}", _last(errors)
    if status == -signal.SIGILL or _UNKNOWN_CODE.search(errors):
        return (
            f"valgrind cannot run {name}: it has instructions beyond {COUNTED_ON.upper()}, such as AVX-512's; build it "
            f"for {COUNTED_ON.upper()}, or let it choose as it runs"
        )
    if status == -signal.SIGXCPU:
        return f"{name} takes more than {LONGEST} s of processor under valgrind: count a smaller case, counts=[...]"
    if status < 0:
        return f"{name} ends by {signal.Signals(-status).name} under valgrind"
    words = {
        _NO_LIBRARY: f"{call.library.name} does not load: {last}",
        _NO_FUNCTION: f"{call.library.name} has no function {call.symbol}",
        _HAS_STATUS: f"{name} returns status {last} under valgrind",
        _NO_MEMORY: f"no memory for the {len(call.memory):,} bytes of {call.symbol}'s inputs and outputs",
    }
    return words.get(status, f"{name} ends with status {status} under valgrind: {last}")


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and "warning:" not in line]
    return " ".join(lines[-1].split()) if lines else "no reason given"


def _parsed(text: str, call: CCall) -> Execution:
    """Return all that `kv_counted` calls, from a file of callgrind.

    Raises:
        CountError: it calls nothing.
    """
    events: list[str] = []
    sums: Counter[str] = Counter()
    addresses: list[int] = []
    library = str(call.library.resolve())  # as callgrind names it
    file = function = before = ""
    for line in text.splitlines():
        if line.startswith("events: "):
            events = line.split()[1:]
        elif line.startswith("ob="):
            file = line.removeprefix("ob=")
        elif line.startswith("fn="):
            function = line.removeprefix("fn=")
        elif before.startswith("calls=") and function == COUNTED:  # address, line of the source, and counts
            sums.update(dict(zip(events, map(int, line.split()[2:]), strict=False)))
        elif line.startswith("0x") and file == library:
            addresses.append(int(line.split()[0], 16))
        before = line
    if not sums["Ir"]:
        raise CountError(
            f"callgrind counts no instruction of {call.symbol} of {call.library.name}: it saw no call that returns"
        )
    counts = {name: sum(sums[event] for event in _SUMS[name]) for name in COUNTS}
    return Execution(counts, listing.executed(call.library, addresses))
