"""The library for aarch64, in an emulator: what it is, what its loops are made of, and the bits that it computes.

All the other tests of the CPU kernels run with it too, as with every instruction set (instruction_sets.py).
"""

from __future__ import annotations

import ctypes
import re
import subprocess

import numpy as np
import pytest

import kernels
from kernels._native import library, streams
from tests.aarch64.emulated import Region
from tests.kernels.numbers import FORMATS
from tests.kernels.stand_in import HostTensor, float32_values, poisoned

pytestmark = pytest.mark.slow
MACHINE_AARCH64 = 183  # EM_AARCH64
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(.+)$", re.MULTILINE)  # of objdump: the address, and what it is
BRANCH = re.compile(r"(?:b|b\.\w+|cbn?z|tbn?z|ret)\b(?:.*\b([0-9a-f]+) <)?")  # and the address it goes to
VECTOR = re.compile(r"\bv\d+\.(4s|2d)\b")
# Calls, vectors that go to the stack and back, and that are taken apart into the other registers or put together.
COSTLY = re.compile(
    r"bl\t|(ld|st)\w+\t[qds]\d.*\[sp|(mov|umov|smov|fmov)\t([wx]\d+, [vsd]\d|v\d+\.[shbd]\[\d+\], [wx])"
)


def inner_loops(code: str) -> list[list[str]]:
    """Return the instructions of the loops without a branch inside that compute with vectors of numbers."""
    lines = [(int(at, 16), text) for at, text in INSTRUCTION.findall(code)]
    indices = {at: index for index, (at, _) in enumerate(lines)}
    loops = []
    for line_number, (_, text) in enumerate(lines):
        branch = BRANCH.match(text)
        first = indices.get(int(branch[1], 16), line_number) if branch and branch[1] else line_number
        body = [line for _, line in lines[first:line_number]]
        if not any(map(BRANCH.match, body)) and any(map(VECTOR.search, body)):
            loops.append(body)
    return loops


def test_library_is_for_aarch64_with_one_path(aarch64):
    assert int.from_bytes(aarch64.native.read_bytes()[18:20], "little") == MACHINE_AARCH64
    named = {name: ctypes.create_string_buffer(name.encode()) for name in ("baseline", "sse2", "avx2")}
    chosen = [aarch64.call("kv_choose_isa", [Region(ctypes.addressof(text), len(text))]) for text in named.values()]
    assert chosen == [0, 6, 6]
    assert aarch64.call("kv_choose_isa", [None]) == aarch64.call("kv_has_cuda", []) == 0


def test_loops_hold_vectors_in_registers(aarch64):
    objects = sorted(aarch64.native.parent.glob("CMakeFiles/kv_baseline.dir/kernels/*/*.o"))
    assert {path.parent.name for path in objects} == {*kernels.KERNELS, "_native"}
    for path in objects:
        command = ["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", str(path)]
        code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        loops = inner_loops(code)
        assert loops, path
        costly = [line for loop in loops for line in loop if COSTLY.match(line)]
        assert not costly, (path, costly)


def special(form, seed, count):
    """Return normal values of a format, and every kind of number that there is among them."""
    tiny, most = 2.0**form.smallest, (2.0 - 2.0 ** (1 - form.digits)) * 2.0 ** (form.largest - 1)
    kinds = [0.0, np.inf, np.nan, tiny, tiny / 2, tiny * 2.0 ** (1 - form.digits), most, 0.5, 1.5, 2.5, 43.75, 88.0]
    values = np.float64(float32_values(seed, (count,), 3))
    values[:: count // 64] = np.resize([sign * kind for kind in kinds for sign in (1, -1)], len(values[:: count // 64]))
    return form.encode(np.random.default_rng(seed).permutation(values))


def outputs() -> dict[str, np.ndarray]:
    """Return what every function computes of the same numbers, whatever instruction set runs."""
    result = {}
    for name, form in FORMATS.items():
        if name == "float8_e4m3fn":
            continue  # no CPU has it
        x, y = (special(form, seed, 5003) for seed in (1, 2))
        out = form.tensor(np.zeros_like(x))
        kernels.add_mul_exp(form.tensor(x), form.tensor(y), out=out)
        result[f"add_mul_exp {name}"] = form.decode(out.array)
        if name == "float64":
            continue
        for scale, zero_point in ((1.0, 0), (0.05, -128), (1e-30, 127), (1e30, 3)):
            q = HostTensor(np.zeros(x.shape, np.int8))
            kernels.quantize_int8(form.tensor(x), scale, zero_point, out=q)
            result[f"quantize_int8 {name} {scale}"] = q.array
        rows = form.tensor(x[:5000].reshape(50, 100).copy())
        rows.array[::2][~np.isfinite(form.decode(rows.array[::2]))] = 1
        integers, scales = HostTensor(np.zeros((50, 100), np.int8)), HostTensor(np.zeros(50, np.float32))
        kernels.quantize_int8_rows(rows, scales, out=integers)
        result[f"quantize_int8_rows {name}"], result[f"scales {name}"] = integers.array, scales.array
    a, b, bias = float32_values(1, (61, 300)), float32_values(2, (300, 45)), float32_values(3, (45,))
    a[7, 3], a[8, 4], bias[5] = np.nan, np.inf, -np.inf
    for name, inputs in (("matmul", (a, b)), ("matmul_bias_relu", (a, b, bias))):
        product = HostTensor(poisoned((61, 45), "float32"))
        getattr(kernels, name)(*map(HostTensor, inputs), out=product)
        result[name] = product.array
    sums = HostTensor(poisoned((300 * 45,), "float32"))
    assert streams.bind_triad(HostTensor(b.ravel()), HostTensor(b.ravel()[::-1].copy()), sums)() == 0
    return result | {"triad": sums.array}


@pytest.mark.skipif("avx2" not in library.cpu_isas(), reason="this CPU has no fused multiply-add, which aarch64 has")
def test_bits_are_those_of_avx2(aarch64):
    library.choose_isa("avx2")
    here = outputs()
    library.choose_isa(None)
    with aarch64.instead_of_native():
        there = outputs()
    assert list(there) == list(here)
    for name, array in here.items():  # a NaN may be another one
        assert np.array_equal(there[name], array, equal_nan=True), name
        assert np.array_equal(np.signbit(there[name])[there[name] == 0], np.signbit(array)[array == 0]), name
