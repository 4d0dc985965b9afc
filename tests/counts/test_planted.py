"""Planted changes of C code are told by its counts, changes of its text are not. Beside a busy process."""

import ctypes
import subprocess
import sys

import pytest

from kernel_velocity.counts import callgrind
from kernel_velocity.counts.changes import Change, FigureKey, Rules
from tests.counts.counting import COUNTS, Memory, call, compiled, pointer

pytestmark = COUNTS
SIZE = 1600
SOURCE = """
int limit = 1600;
void scale(float *restrict out, const float *restrict x, int n) {
    for (int i = 0; i < n; i++) out[i] = 2.5f * x[i] + 1.0f;
}
"""
OPTIONS = ("-O3", "-mavx2", "-mno-fma")


@pytest.fixture(scope="module", autouse=True)
def busy():
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    process.kill()
    process.wait()


def counted(folder, source, *options):
    x, out = Memory(4 * SIZE), Memory(4 * SIZE)
    library = compiled(folder / "build", source, *OPTIONS, *options)
    arguments = pointer(out), pointer(x), ctypes.c_int(SIZE)
    what = call(library, "scale", *arguments, result=None, inputs=[x], outputs=[out])
    return callgrind.count(what, folder / "results").counts


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return counted(tmp_path_factory.mktemp("base"), SOURCE)


def test_other_text_of_the_same_code_has_the_same_counts(base, tmp_path):
    commented = SOURCE.replace("for (", "/* every element */ for (")
    renamed = commented.replace("out", "result").replace("*restrict x", "*restrict source").replace("x[", "source[")
    assert counted(tmp_path, renamed) == base


def test_one_percent_more_instructions_is_seen_exactly(base, tmp_path):
    more = counted(tmp_path, SOURCE.replace("    for", '    __asm__ volatile(".rept 16; nop; .endr");\n    for'))
    assert more == {**base, "instructions": base["instructions"] + 16}
    key = FigureKey("scale", "native", "float32-1600-avx2", "instructions")
    change = Change(key, base["instructions"], more["instructions"])
    assert 1.01 < change.ratio < 1.02 and change.worsens(Rules().suspect, Rules())


@pytest.mark.parametrize(
    ("source", "options", "least"),
    [
        (SOURCE, ("-fno-tree-vectorize",), 4),
        (SOURCE.replace("2.5f", "2.5"), (), 1.7),
        (SOURCE.replace("out[i] =", "if (i >= limit) __builtin_trap(); else out[i] ="), (), 4),
    ],
    ids=["lost vectorisation", "float64 constant", "bounds check in the inner loop"],
)
def test_planted_change_is_seen(base, tmp_path, source, options, least):
    assert counted(tmp_path, source, *options)["instructions"] > least * base["instructions"]
