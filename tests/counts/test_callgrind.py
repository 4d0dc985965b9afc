"""Counts of one call: right by hand, and the same wherever and however often they are made."""

import ctypes
import shutil
import subprocess
import sys

import pytest

from kernel_velocity.counts import callgrind
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.callgrind import CountError
from kernel_velocity.names import COUNTS as NAMES
from tests.counts.counting import COUNTS, Memory, call, compiled, pointer

pytestmark = COUNTS
ASSEMBLY = {
    "three": "nop; xorl %eax, %eax; ret",
    "jumps": "jmp 1f; 1: nop; xorl %eax, %eax; ret",
    "wide": "vpaddd %zmm0, %zmm0, %zmm0; ret",
}
SOURCE = """
#include <stdlib.h>
#include <string.h>
static int chosen;
int chooses(void) {  /* the first call does more, and asks the environment */
    if (!chosen) for (chosen = 1; getenv("NO_SUCH_VARIABLE") || chosen < 100; ) chosen++;
    return 0;
}
int set(char *out, long n) { memset(out, 1, n); return 0; }
int sum(float *out, const float *x, int n) {
    float total = 0;
    for (int i = 0; i < n; i++) total += x[i];
    *out = total;
    return 0;
}
int down(int n) { return n ? down(n - 1) + 1 : 0; }
int up_to(int n) { volatile int level = down(n); (void)level; return 0; }
int refuses(void) { return 3; }
int crashes(void) { return *(volatile int *)8; }
int leaves(void) { exit(0); }
int waits(void) { for (;;) __asm__ volatile(""); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    lines = [f".globl {name}; .type {name}, @function; {name}: {text}" for name, text in ASSEMBLY.items()]
    source = "".join(f'__asm__("{line};");' for line in lines)
    return compiled(tmp_path_factory.mktemp("library"), f"{source}\n{SOURCE}", "-O1")


@pytest.fixture
def count(tmp_path):
    """Count without results of an earlier count."""
    return lambda what: callgrind.count(what, tmp_path / "cache").counts


def summing(library, n=1000):
    x, out = Memory(4 * n), Memory(4)
    arguments = (pointer(out), pointer(x), ctypes.c_int(n))
    return call(library, "sum", *arguments, inputs=[x], outputs=[out])


def test_instructions_of_a_function_by_hand(count, library):
    assert count(call(library, "three")) == {
        "instructions": 3,
        "reads": 1,  # the address to return to
        "writes": 0,
        "l1_misses": 0,
        "ll_misses": 0,
    }


def test_a_jump_to_another_function_is_counted_with_it(count, library):
    assert count(call(library, "jumps"))["instructions"] == 4


def test_reads_and_misses_of_a_sum_by_hand(count, library):
    counts = count(summing(library))
    assert counts["reads"] == 1000 + 1 and counts["writes"] == 1
    assert counts["l1_misses"] == counts["ll_misses"] == 63 + 1  # lines of 64 bytes: of 4000 bytes, and of the result


def test_recursion_is_counted_once(count, library):
    ten, twenty = (count(call(library, "up_to", ctypes.c_int(n)))["instructions"] for n in (10, 20))
    a_level, rest = divmod(twenty - ten, 10)
    assert 5 <= a_level <= 15 and rest == 0  # a comparison, a jump, a subtraction, a call, an addition, the stack
    assert ten < 11 * a_level + 20


def test_what_only_the_first_call_does_is_not_counted(count, library):
    assert count(call(library, "chooses"))["instructions"] < 10


def test_memset_is_no_instruction_a_byte(count, library):
    out = Memory(1 << 16)
    assert count(call(library, "set", pointer(out), ctypes.c_long(1 << 16), outputs=[out]))["instructions"] < 5000


def test_counts_are_the_same_anywhere(library, tmp_path, monkeypatch):
    """In other folders, stripped, with another environment, beside busy processes."""
    expected = callgrind.count(summing(library), tmp_path / "first")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for number, length in enumerate((1, 200)):
            copy = tmp_path / ("x" * length) / "libother.so"
            copy.parent.mkdir()
            shutil.copy(library, copy)
            subprocess.run(["strip", str(copy)], check=True)
            monkeypatch.setenv("LD_LIBRARY_PATH", "/" + "y" * 20 * length)
            assert callgrind.count(summing(copy), tmp_path / f"cache{number}") == expected
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_result_is_kept_until_the_code_changes(library, tmp_path, monkeypatch):
    copy = tmp_path / "build" / "libkept.so"
    copy.parent.mkdir()
    shutil.copy(library, copy)
    runs, run = [], subprocess.run
    monkeypatch.setattr(
        callgrind.subprocess, "run", lambda *args, **options: runs.append(args) or run(*args, **options)
    )
    first = callgrind.count(summing(copy), tmp_path / "cache")
    made = len(runs)
    assert callgrind.count(summing(copy), tmp_path / "cache") == first and len(runs) == made
    (tmp_path / "build" / "libbeside.so").write_bytes(b"other")  # it may load that one
    assert callgrind.count(summing(copy), tmp_path / "cache") == first and len(runs) > made


def test_code_that_ran_is_listed_also_through_a_link(library, tmp_path):
    (tmp_path / "real").mkdir()
    shutil.copy(library, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    code = callgrind.count(summing(tmp_path / "link" / library.name), tmp_path / "cache").code
    assert code.startswith("sum:\n") and "three:" not in code


def test_damaged_result_is_counted_again(library, tmp_path):
    expected = callgrind.count(summing(library), tmp_path)
    (result_file,) = tmp_path.glob("*.json")
    for text in ("[", '{"instructions": 1}', '[{"instructions": 1}, ""]', "[[], 1]"):
        result_file.write_text(text)
        assert callgrind.count(summing(library), tmp_path) == expected
    assert expected.counts.keys() == NAMES.keys()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("refuses", r"refuses of libsmall\.so returns status 3 under valgrind"),
        ("crashes", r"crashes of libsmall\.so ends by SIGSEGV under valgrind"),
        ("wide", r"valgrind cannot run wide of libsmall\.so: it has instructions beyond AVX2, .* build it for AVX2"),
    ],
)
def test_call_that_valgrind_cannot_make_is_na(count, library, name, words):
    with pytest.raises(NotCountedError, match=words):
        count(call(library, name))


def test_call_that_takes_too_long_is_na(count, library, monkeypatch):
    monkeypatch.setattr(callgrind, "LONGEST", 1)
    with pytest.raises(NotCountedError, match=r"waits of .* takes more than 1 s of processor .* counts=\[\.\.\.\]"):
        count(call(library, "waits"))


def test_zero_is_an_error(count, library):
    with pytest.raises(CountError, match=r"no instruction of leaves of libsmall\.so: it saw no call that returns"):
        count(call(library, "leaves"))


def test_library_that_does_not_load_is_na(count, library, tmp_path):
    what = summing(library)
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"no library")
    with pytest.raises(NotCountedError, match=r"libbroken\.so does not load: .*libbroken\.so"):
        count(type(what)(broken, "sum", "int", what.arguments, what.memory))
    with pytest.raises(NotCountedError, match=r"libsmall\.so has no function gone"):
        count(type(what)(library, "gone", "int", what.arguments, what.memory))


@pytest.mark.parametrize(
    ("programs", "words"),
    [((), r"valgrind is not installed: `apt-get install valgrind`"), (("valgrind",), "no C compiler found")],
)
def test_missing_program_is_named_with_its_cure(library, tmp_path, monkeypatch, programs, words):
    for program in programs:
        (tmp_path / program).write_text(f'#!/bin/sh\nexec {shutil.which(program)} "$@"\n')
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    callgrind._valgrind.cache_clear()
    try:
        with pytest.raises(NotCountedError, match=words):
            callgrind.check()
        assert bool(callgrind.counted_by()) == bool(programs)
    finally:
        callgrind._valgrind.cache_clear()


def test_another_cpu_is_named(monkeypatch):
    callgrind._valgrind.cache_clear()
    monkeypatch.setattr(callgrind.platform, "machine", lambda: "aarch64")
    with pytest.raises(NotCountedError, match=r"counts need an x86-64 CPU with AVX2 \(this is aarch64\)"):
        callgrind.check()
    callgrind._valgrind.cache_clear()


def test_what_counts_is_recorded():
    by = callgrind.counted_by()
    assert by["method"] == callgrind.METHOD and by["valgrind"][0].isdigit()
    assert "--D1=32768,8,64" in by["settings"] and "GLIBC_TUNABLES=glibc.cpu.hwcaps=-ERMS" in by["settings"]
