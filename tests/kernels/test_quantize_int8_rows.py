"""quantize_int8_rows against its definition in numpy: the CPU's code of every instruction set, and CUDA's kernels.

With PyTorch also against its problem, on a GPU where there is one.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernels
from tests.cuda_on_host.calling import ORDERS, Memory, output
from tests.kernels.instruction_sets import ISAS, in_turn
from tests.kernels.numbers import FORMATS, Format
from tests.kernels.stand_in import HostTensor, float32_values, shifted
from tests.kernels.test_cuda_on_host import entry_point

DTYPES = ("float32", "float16", "bfloat16")
FORMS = pytest.mark.parametrize("form", [FORMATS[name] for name in DTYPES], ids=DTYPES)


def on_every_isa(test):
    for mark in in_turn(ISAS):
        test = mark(test)
    return test


def values(form: Format, seed: int, shape: tuple[int, ...], spread: float = 1.0) -> np.ndarray:
    """Random normal values of a format."""
    return form.encode(float32_values(seed, shape, spread).astype(np.float64))


@np.errstate(all="ignore")
def definition(form: Format, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers and the scales in float64, rounded to float32 after each division.

    Rounding a quotient to float64 and then to float32 is rounding it to float32 once (references.py).
    """
    numbers = form.decode(x).astype(np.float64)
    scales = (np.max(np.abs(numbers), axis=1, initial=0) / 127).astype(np.float32)
    quotients = (numbers / scales[:, None].astype(np.float64)).astype(np.float32)
    rounded = np.rint(quotients)
    return np.where(np.isnan(rounded), 0, np.clip(rounded, -127, 127)).astype(np.int8), scales


def assert_right(form: Format, x: np.ndarray, out: np.ndarray, scales: np.ndarray) -> None:
    wanted, wanted_scales = definition(form, x)
    assert np.array_equal(scales, wanted_scales, equal_nan=True)
    wrong = np.argwhere(out != wanted)
    assert wrong.size == 0, f"{len(wrong)} wrong, first at {wrong[0]}: {out[tuple(wrong[0])]} of {x[tuple(wrong[0])]}"


def run(form: Format, x: np.ndarray, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Call the CPU's kernel with outputs that begin at odd addresses, amid others, and check all of it."""
    rows, columns = x.shape
    memory, scales = np.full(x.size + 130, 77, np.int8), np.full(rows + 2, 77, np.float32)
    out = memory[65 : 65 + x.size].reshape(rows, columns)
    made = kernels.quantize_int8_rows(
        form.tensor(x), HostTensor(scales[1 : rows + 1]), out=HostTensor(out), threads=threads
    )
    assert made[0].array is out
    assert np.all(memory[:65] == 77) and np.all(memory[65 + x.size :] == 77)
    assert scales[0] == scales[-1] == 77
    assert_right(form, x, out, scales[1:-1])
    return out, scales[1:-1]


SHAPES = st.tuples(st.integers(0, 5), st.sampled_from([0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 255, 257]))


@on_every_isa
@FORMS
@settings(max_examples=25)  # of each dtype, with each instruction set
@given(SHAPES, st.integers(0, 2**32 - 2), st.integers(0, 3), st.integers(-60, 60))
def test_any_shape_alignment_and_exponent(form, shape, seed, shift, exponent):
    exponent = exponent if form.name != "float16" else exponent // 10
    run(form, shifted(values(form, seed, shape, 2.0**exponent), shift))


def rows_of_every_kind(form: Format, columns: int) -> np.ndarray:
    """Rows whose scale is 0, tiny, huge, infinite or NaN, or whose quotients are ties, all of one length."""
    tiny, most = 2.0**form.smallest, 2.0 ** (form.largest - 1)
    rows = [values(form, row, (columns,)) for row in range(12)]
    normal = float32_values(99, (columns,)).astype(np.float64)
    kinds = [np.zeros(columns), normal * tiny, normal * (tiny * 2.0 ** (1 - form.digits)), normal * (most / 8)]
    for special in (np.nan, np.inf, -np.inf, most):
        with_one = normal.copy()
        with_one[columns // 3] = special
        kinds.append(with_one)
    ties = np.resize(np.arange(-127, 127) + 0.5, columns)
    ties[-1] = 127.0  # so the scale is a power of two
    kinds += [ties, ties * 2.0**-9, np.full(columns, -0.0), np.full(columns, 2.0**form.smallest)]
    return np.stack([*rows, *(form.encode(kind) for kind in kinds)])


@on_every_isa
@FORMS
@pytest.mark.parametrize("columns", [1, 5, 64, 300])
def test_rows_of_every_kind(form, columns):
    run(form, rows_of_every_kind(form, columns))


@on_every_isa
@pytest.mark.parametrize("seed", range(3))
def test_quotients_at_and_beside_ties(seed):
    # Random maxima, so that scales have any bits; numbers as near as float32 can be to where the integer changes.
    most = np.exp2(np.random.default_rng(seed).uniform(-90, 90, 300)).astype(np.float32)
    scale = (most.astype(np.float64) / 127).astype(np.float32)
    ties = ((np.arange(-126, 126) + 0.5).astype(np.float32) * scale[:, None]).astype(np.float32)
    beside = [np.nextafter(ties, np.float32(side * np.inf)) for side in (1, -1)]
    run(FORMATS["float32"], np.concatenate([most[:, None], ties, *beside], axis=1))


@FORMS
def test_threads_do_not_change_the_result(form):
    x = values(form, 1, (37, 65))
    for threads in (2, 5):
        for first, other in zip(run(form, x, threads), run(form, x), strict=True):
            assert first.tobytes() == other.tobytes()


# The CUDA kernels, on the CPU -------------------------------------------------------------------------------------


def on_gpu(on_host, form: Format, x: np.ndarray, shifts: tuple[int, int] = (0, 0), **how) -> str:
    """Run the CUDA kernel of a dtype on the engine, check its outputs. Return the kernel that ran."""
    name = entry_point("quantize_int8_rows", form.name)[1]
    out, scales = output(x.shape, np.int8, shifts[1]), output(x.shape[:1], np.float32)
    library = on_host.kernel("quantize_int8_rows")
    assert library.call(f"{name}_cuda", Memory(x, shifts[0]), out, scales, *x.shape, **how) == 0
    assert_right(form, x, out.array, scales.array)
    if not x.shape[0]:
        assert library.launches == []
        return ""
    (launch,) = library.launches
    return launch.kernel.removeprefix(f"{name}_")


@FORMS
@pytest.mark.parametrize("order", ORDERS)
def test_cuda_any_length(on_host, form, order):
    observed = set()
    words = 16 // x_bytes(form)
    for columns in (0, 1, 3, words, 4 * words, 31 * words + 1, 256 * words, 257 * words, 301, 2101):
        observed.add(on_gpu(on_host, form, values(form, columns, (9, columns)), order=order, processors=1))
    observed.add(on_gpu(on_host, form, values(form, 1, (2, 2049 * words)), order=order))  # read twice
    assert on_gpu(on_host, form, values(form, 1, (0, 5)), order=order) == ""
    assert observed == {"scalar_warp", "scalar_block", "vector_warp", "vector_block"}


def x_bytes(form: Format) -> int:
    return np.dtype(form.stored).itemsize


@FORMS
@pytest.mark.parametrize("columns", [24, 300, 2104])
def test_cuda_rows_of_every_kind(on_host, form, columns):
    x = rows_of_every_kind(form, columns)
    for shifts in ((0, 0), (1, 0), (0, 1), (3, 2)):
        kernel = on_gpu(on_host, form, x, shifts, device=1, stream=3)
        assert ("vector" in kernel) == (shifts == (0, 0) and columns * x_bytes(form) % 16 == 0)


@pytest.mark.slow  # compiles the kernel once more
def test_cuda_before_compute_capability_8(on_host, tmp_path):
    """By blocks and by warps."""
    source, now = (
        tmp_path / "quantize_int8_rows" / "quantize_int8_rows.cu",
        "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800",
    )
    for name in ("_native", "quantize_int8_rows"):
        shutil.copytree(Path(kernels.__file__).parent / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so"))
    text = source.read_text()
    assert now in text
    source.write_text(text.replace(now, "#if 1"))
    old = SimpleNamespace(kernel=lambda _: on_host.library(source))
    for columns in (1100, 100):
        on_gpu(old, FORMATS["float32"], values(FORMATS["float32"], 1, (9, columns)), processors=1)


# With PyTorch ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (65, 1024), (7, 8200)])
def test_integers_are_pytorchs(device, dtype, shape):
    torch = pytest.importorskip("torch", reason="the reference is PyTorch's")
    from benchmarks.quantize_int8_rows import QuantizeInt8Rows

    problem = QuantizeInt8Rows()
    problem.device = device
    inputs = problem.inputs_of(f"{dtype}-{'x'.join(map(str, shape))}")
    out, scales = kernels.quantize_int8_rows(inputs[0])
    right, details = problem.verify_result(problem.expected(*inputs), (out, scales))
    assert right, details
    assert torch.equal(scales, inputs[0].float().abs().amax(1) / inputs[1])
