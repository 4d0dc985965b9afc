"""Kernels of Python's languages for GPUs, compiled without one by the recipes of docs/how-to/gpu-languages.md."""

import pytest

from kernel_velocity.names import MIX
from tests.counts.gpu import GPU_TOOLS
from tests.counts.gpu_languages import KERNELS, compiled, require_languages

pytestmark = [GPU_TOOLS, pytest.mark.slow]
NAMES = (
    *("scale_triton sm_90a", "scale_triton gfx942", "scale_triton gfx1201", "scale_helion sm_80", "scale_numba sm_90"),
    *("scale_cutile sm_90a", "scale_cutile sm_100a", "scale_cute sm_90a", "scale_cute sm_100a"),
)
PRODUCT = """
@triton.jit
def scale(x, out, n, block: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for step in range(0, n, 64):
        tile = tl.load(x + at[:, None] * n + step + at[None, :]).to(tl.float16)
        total = tl.dot(tile, tile, total)
    tl.store(out + at[:, None] * 64 + at[None, :], total)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What is counted of each kernel."""
    require_languages()
    return compiled(tmp_path_factory.mktemp("languages"), NAMES)


def test_each_language_is_counted(made):
    for name, (figures, details, missing, occupancies, code, _) in made.items():
        language, _, architecture = name.removeprefix("scale_").partition(" ")
        assert figures["registers"] and figures["float32_instructions"] and figures["global_instructions"], name
        assert sum(figures[kind] for kind in MIX if kind != "loop_instructions") == sum(details.values()), name
        assert ("scalar_registers" in figures) == architecture.startswith("gfx"), name
        assert set(missing) == ({"occupancy"} if language == "numba" else set()), name
        assert bool(occupancies) == (language != "numba") and ":\n" in code, name


def test_comments_and_folders_change_nothing(made, tmp_path):
    commented = {
        language: f"# a comment\n\n{text.replace('out[at] =', '# another' + chr(10) + '        out[at] =')}"
        for language, text in KERNELS.items()
    }
    assert compiled(tmp_path / "another" / "folder", NAMES, commented) == made


def test_tensor_cores_loops_and_shared_memory_are_seen(tmp_path):
    require_languages()
    kernels = {"triton": KERNELS["triton"].partition("@")[0] + PRODUCT}
    names = ["scale_triton sm_80", "scale_triton sm_90a", "scale_triton gfx942", "scale_triton gfx1201"]
    made = compiled(tmp_path, names, kernels)
    for figures, _, missing, *_ in made.values():
        assert figures["tensor_instructions"] and figures["shared_bytes"] and not missing
        assert 0 < figures["loop_instructions"] < sum(figures[kind] for kind in MIX) / 2
    assert any(name.startswith("tensor HGMMA.64x64x16.F32") for name in made["scale_triton sm_90a"][1])


def test_kernel_that_does_not_compile_is_one_line(tmp_path):
    require_languages()
    broken = {
        "triton": KERNELS["triton"].replace("2.0 *", "2.0 * tl.nothing +"),
        "numba": KERNELS["numba"].replace("+ x[at]", "+ x.nothing"),
        "cutile": KERNELS["cutile"].replace("2.0 *", "ct.nothing *"),
        "cute": KERNELS["cute"].replace("* 2.0", "* x.nothing"),
    }
    names = ["scale_triton sm_80", "scale_numba sm_90", "scale_cutile sm_90a", "scale_cute sm_90a"]
    for name, why in compiled(tmp_path, names, broken).items():
        recipe, _, architecture = name.partition(" ")
        assert why.startswith(f"{recipe} does not compile for {architecture}: ") and "nothing" in why, why
        assert len(why.splitlines()) == 1


def test_without_languages_each_kernel_is_one_line(tmp_path):
    why = compiled(tmp_path, ["scale_cutile sm_90a"], paths=())["scale_cutile sm_90a"]
    assert why.startswith("scale_cutile needs the module cuda, which neither this Python nor this commit has: install")
