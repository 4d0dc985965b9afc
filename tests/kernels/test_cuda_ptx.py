"""How the CUDA kernels access memory, by the instructions that `make build` kept: no GPU is asked."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import kernels
from kernels._native.library import HAS_CUDA

pytestmark = pytest.mark.skipif(not HAS_CUDA, reason="built without CUDA kernels")
BUILD = Path(kernels.__file__).parents[1] / "build"
ACCESS = re.compile(r"^\s*(?:@\S+\s+)?(ld|st)\.(global|shared|local)\b\S*?(?:\.v(\d))?\.[a-z]+(\d+)\s", re.MULTILINE)
LOADS, STORES = "ld.global", "st.global"
# Of each kernel: vectors of 16 bytes that a thread asks for at once, how many it loads and stores, single items that it
# loads. quantize_int8_rows has its loops twice, the others each store twice: with and without a hint for the caches.
ELEMENTWISE = {"add_mul_exp": (4, 4, 4, 2), "quantize_int8": (2, 2, 4, 1), "quantize_int8_rows": (8, 16, 16, 1)}


def entries(file: str) -> dict[str, str]:
    """Return the PTX of each kernel of a file."""
    (ptx,) = BUILD.rglob(f"{file}.cu.o.keep/{file}.ptx")
    _, *texts = ptx.read_text(encoding="utf-8").split(".entry ")
    return {text.split("(")[0].strip(): text for text in texts}


def accesses(file: str) -> dict[str, list[tuple[str, int]]]:
    """Return what each kernel of a file accesses in memory: "ld.global" and how many bytes, as PTX lists them."""
    return {name: _accesses_of(entry) for name, entry in entries(file).items()}


def _accesses_of(entry: str) -> list[tuple[str, int]]:
    result = ACCESS.findall(entry)
    return [(f"{kind}.{space}", int(count or 1) * int(bits) // 8) for kind, space, count, bits in result]


@pytest.mark.parametrize("kernel", ELEMENTWISE)
def test_elementwise_loads_all_vectors_before_it_stores(kernel):
    at_once, loads, stores, elements = ELEMENTWISE[kernel]
    vectors = {name: of for name, of in accesses(kernel).items() if "_vector" in name}
    assert len(vectors) == (6 if kernel == "quantize_int8_rows" else 3)
    for name, of in vectors.items():
        itemsize = 2 if "float16" in name else 4  # bytes
        to = itemsize if kernel == "add_mul_exp" else 1
        in_memory = [access for access in of if access[0] in (LOADS, STORES)]
        assert in_memory[:at_once] == [(LOADS, 16)] * at_once, name
        wanted = Counter(
            {(LOADS, 16): loads, (LOADS, itemsize): elements, (STORES, 16 // itemsize * to): stores, (STORES, to): 1}
        )
        if kernel == "quantize_int8_rows":
            wanted[STORES, 4] += 1  # the scale
        assert Counter(in_memory) == wanted, name


@pytest.mark.parametrize("file", ["matmul", "matmul_tensor", "matmul_bias_relu", "matmul_bias_relu_tensor"])
def test_product_is_stored_by_vectors(file):
    vectors = {name: of for name, of in accesses(file).items() if name.endswith("_vector")}
    assert len(vectors) == {"matmul_tensor": 6, "matmul_bias_relu_tensor": 4}.get(file, 2)
    for name, of in vectors.items():
        stored = {access for access in of if access[0] == STORES}
        assert stored == {(STORES, 8 if "float16" in name else 16)}, name  # 8: four items of two bytes
        assert not [access for access in of if access[0].endswith(".local")], name


# Of a file's kernels for Hopper: tiles of three widths for each dtype.
ON_HOPPER = {
    "matmul_hopper": {f"kv_matmul_{dtype}" for dtype in ("float16", "bfloat16", "int8", "float8_e4m3fn")},
    "matmul_bias_relu_hopper": {f"kv_matmul_bias_relu_{dtype}" for dtype in ("float16", "bfloat16")},
}


@pytest.mark.parametrize("file", ON_HOPPER)
def test_hopper_neither_waits_nor_spills(file):
    programs = entries(file)
    assert programs.keys() == {f"{name}_hopper_{wide}" for name in ON_HOPPER[file] for wide in (128, 192, 256)}
    for name, entry in programs.items():
        passes = re.findall(r"wgmma\.fence\.(.*?)wgmma\.commit_group", entry, re.DOTALL)
        assert {text.count("wgmma.mma_async") for text in passes} == {4}, name  # 128 bytes of k
        # The bias, and sums on their way from cluster to cluster.
        others = {access for access in _accesses_of(entry) if ".shared" not in access[0]}
        assert others - {(LOADS, 2)} == {(LOADS, 16), (STORES, 16)}, name
    (log,) = BUILD.rglob(f"{file}.cu.o.ptxas.txt")
    assert "Performance Loss" not in log.read_text(encoding="utf-8")  # a wgmma that waits for the one before
    figures = [
        figure
        for kernel in kernels.build_info()["kernels"].values()
        for figure in kernel["ptxas"]
        if figure["function"] in programs
    ]
    assert {figure["function"] for figure in figures} == programs.keys()
    for figure in figures:
        assert (figure["architecture"], figure["registers"]) == ("sm_90a", 168), (
            figure
        )  # a third of a block's, to begin
        assert figure["spill_store_bytes"] == figure["stack_bytes"] == 0, figure
