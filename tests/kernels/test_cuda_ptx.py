"""How the CUDA kernels access memory, by the instructions that nvcc makes for them: no GPU is asked."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import kernels

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc to compile with")
FOLDER = Path(kernels.__file__).parent
ACCESS = re.compile(r"^\s*(?:@\S+\s+)?(ld|st)\.(global|shared|local)\b\S*?(?:\.v(\d))?\.[a-z]+(\d+)\s", re.MULTILINE)
LOADS, STORES = "ld.global", "st.global"
# Of each kernel: vectors of 16 bytes that a thread asks for at once, how many it loads and stores (quantize_int8_rows
# has its loops twice), single items that it loads.
ELEMENTWISE = {"add_mul_exp": (8, 8, 4, 2), "quantize_int8": (4, 4, 4, 1), "quantize_int8_rows": (8, 16, 16, 1)}


def accesses(folder: str, file: str, tmp_path: Path) -> dict[str, list[tuple[str, int]]]:
    """Return what each kernel of a file accesses in memory: "ld.global" and how many bytes, as PTX lists them."""
    ptx = tmp_path / "kernels.ptx"
    options = ["-O3", "-DNDEBUG", "-std=c++17", "-arch=sm_80", "-ptx"]
    command = ["nvcc", *options, str(FOLDER / folder / f"{file}.cu"), "-o", str(ptx)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    _, *entries = ptx.read_text(encoding="utf-8").split(".entry ")
    return {entry.split("(")[0].strip(): _accesses_of(entry) for entry in entries}


def _accesses_of(entry: str) -> list[tuple[str, int]]:
    found = ACCESS.findall(entry)
    return [(f"{kind}.{space}", int(count or 1) * int(bits) // 8) for kind, space, count, bits in found]


@pytest.mark.parametrize("kernel", ELEMENTWISE)
def test_an_elementwise_kernel_asks_for_all_its_vectors_before_it_stores_one(kernel, tmp_path):
    at_once, loads, stores, items = ELEMENTWISE[kernel]
    vectors = {name: of for name, of in accesses(kernel, kernel, tmp_path).items() if "_vector" in name}
    assert len(vectors) == (6 if kernel == "quantize_int8_rows" else 3)
    for name, of in vectors.items():
        item = 2 if "float16" in name else 4  # bytes
        to = item if kernel == "add_mul_exp" else 1
        in_memory = [one for one in of if one[0] in (LOADS, STORES)]
        assert in_memory[:at_once] == [(LOADS, 16)] * at_once, name
        wanted = Counter({(LOADS, 16): loads, (LOADS, item): items, (STORES, 16 // item * to): stores, (STORES, to): 1})
        if kernel == "quantize_int8_rows":
            wanted[STORES, 4] += 1  # the scale
        assert Counter(in_memory) == wanted, name


@pytest.mark.parametrize(
    ("folder", "file"),
    [("matmul", "matmul"), ("matmul", "matmul_tensor"), ("matmul_bias_relu", "matmul_bias_relu")],
)
def test_a_product_is_stored_by_vectors(folder, file, tmp_path):
    vectors = {name: of for name, of in accesses(folder, file, tmp_path).items() if name.endswith("_vector")}
    assert len(vectors) == (6 if file == "matmul_tensor" else 2)
    for name, of in vectors.items():
        stored = {one for one in of if one[0] == STORES}
        assert stored == {(STORES, 8 if "float16" in name else 16)}, name  # 8: four items of two bytes
        assert not [one for one in of if one[0].endswith(".local")], name
