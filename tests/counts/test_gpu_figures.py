"""Figures of GPU code: as ptxas says them, of any kind of file, equal for equal code, a line where there is none."""

import os
import re
import shutil
import subprocess
from functools import partial

import pytest

from kernel_velocity.counts import gpu_figures, machine_code
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.gpu_code import GpuCode
from kernel_velocity.counts.gpu_figures import readable
from kernel_velocity.counts.gpu_sources import GpuCompiler, GpuFile
from kernel_velocity.names import FIGURES, MIX
from tests.counts.gpu import GPU_TOOLS, HAS_TOOLS, PATH, assembled, fatbin, library, ptx, scale

PTXAS = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r".*?Used (\d+) registers, used (\d+) barriers.*?(\d+) bytes smem"
)


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    monkeypatch.setenv("PATH", PATH)
    machine_code.nvdisasm.cache_clear()
    machine_code.version.cache_clear()
    yield
    machine_code.nvdisasm.cache_clear()
    machine_code.version.cache_clear()


@pytest.fixture(scope="module")
def spilling(tmp_path_factory):
    """A cubin of a kernel that spills, and what ptxas said, by architecture."""
    if not HAS_TOOLS:
        pytest.skip("no ptxas")
    folder, text = tmp_path_factory.mktemp("spilling"), ptx(scale(loads=12, registers=32))
    return {name: assembled(text, name, folder) for name in ("sm_80", "sm_90a", "sm_100a", "sm_120a")}


def figures(folder, *args, architecture="sm_80", **options):
    return GpuFile(*args, **options).compiled(folder, architecture, folder / "cache")


@GPU_TOOLS
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_figures_are_those_of_ptxas(tmp_path, spilling, architecture):
    content, words = spilling[architecture]
    (tmp_path / "k.cubin").write_bytes(content)
    stack, stores, loads, registers, barriers, shared = map(int, PTXAS.search(words).groups())
    made = figures(tmp_path, "k.cubin", architecture=architecture)
    got = {name: made.figures[name] for name in FIGURES["cuda"] if name in made.figures and name not in MIX}
    assert stores and loads
    assert (got["registers"], got["stack_bytes"], got["barriers"]) == (registers, stack, barriers)
    assert (got["shared_bytes"], got["spill_bytes"]) == (shared, stores + loads)
    assert not made.missing and got["code_bytes"] % 128 == 0
    assert made.figures["float32_instructions"] == 96
    assert made.details["global LDG.128.STRONG.SYS"] == 12 or made.details["global LD.128.STRONG.SYS"] == 12
    assert 96 + 12 < made.figures["loop_instructions"] < sum(made.figures[name] for name in MIX) / 2


@GPU_TOOLS
def test_planted_changes_are_named(tmp_path):
    made = {}
    variants = {"base": {}, "narrow": {"width": 1, "loads": 4}, "double": {"type_": "f64", "width": 2}}
    for name, options in variants.items():
        (tmp_path / f"{name}.ptx").write_text(ptx(scale(**options)))
        made[name] = figures(tmp_path, f"{name}.ptx")
    narrow, double = made["narrow"], made["double"]
    assert made["base"].figures["global_instructions"] == narrow.figures["global_instructions"] - 3
    assert made["base"].figures["float64_instructions"] == 0 < double.figures["float64_instructions"]
    assert double.figures["float32_instructions"] == 0


@GPU_TOOLS
def test_file_of_every_kind_gives_equal_figures(tmp_path):
    text = ptx(scale())
    cubin, _ = assembled(text, "sm_80", tmp_path)
    packed = fatbin((2, 80, cubin), (1, 80, text.encode()))
    (tmp_path / "k.fatbin").write_bytes(packed)
    names = ["k.ptx", "k.cubin", "k.fatbin"]
    if shutil.which("gcc"):
        library(tmp_path / "libk.so", packed)
        library(tmp_path / "libs.so", packed, "-s")  # stripped
        names += ["libk.so", "libs.so"]
    made = {name: figures(tmp_path, name, ["scale"]) for name in names}
    assert len({str(of) for of in made.values()}) == 1, made


@GPU_TOOLS
def test_equal_code_gives_equal_figures(tmp_path):
    text = ptx(scale())
    texts = [f"// a comment\n\n{text}", text.replace("%sum", "%total").replace("again", "once_more"), *[text] * 3]
    results, identities = set(), set()
    for number, variant in enumerate(texts):
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        content, _ = assembled(variant, "sm_80", folder)
        results.add(str(figures(folder, "k.cubin")))
        identities.add(GpuCode(content).of("scale"))
    assert len(results) == len(identities) == 1


@GPU_TOOLS
def test_several_kernels_are_combined(tmp_path):
    (tmp_path / "k.ptx").write_text(ptx(scale("small"), scale("large", loads=12, bounds=1024)))
    both, small, large = (figures(tmp_path, "k.ptx", names) for names in (["*"], ["small"], ["large"]))
    for name, rule in {"registers": max, "occupancy": min, "float32_instructions": sum, "code_bytes": sum}.items():
        assert both.figures[name] == rule([small.figures[name], large.figures[name]])
    assert set(both.occupancies) == {"small", "large"}


@GPU_TOOLS
@pytest.mark.parametrize(
    ("args", "architecture", "words"),
    [
        (("gone.so",), "sm_80", r"the build of this commit made no gone\.so"),
        (("k.cubin", ["other", "scale"]), "sm_80", r"k\.cubin has no GPU kernel other for sm_80; it has next, scale"),
        (("k.cubin",), "sm_90a", r"k\.cubin has no code for sm_90a; it has sm_80"),
        (("new.ptx",), "sm_80", r"new\.ptx has no code for sm_80; it has PTX of sm_90"),
        (("broken.ptx",), "sm_80", r"ptxas refuses the PTX for sm_80: .*broken"),
        (("text.txt",), "sm_80", r"text\.txt has no GPU code that is read here"),
        (("cut.cubin",), "sm_80", r"cut\.cubin: a damaged ELF file"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, args, architecture, words):
    cubin, _ = assembled(ptx(scale(), scale("next")), "sm_80", tmp_path)
    (tmp_path / "new.ptx").write_text(ptx(scale(), target="sm_90"))
    (tmp_path / "broken.ptx").write_text(ptx(scale()).replace("bar.sync", "broken"))
    (tmp_path / "text.txt").write_text("no code")
    (tmp_path / "cut.cubin").write_bytes(cubin[:100])
    with pytest.raises(NotCountedError, match=words):
        figures(tmp_path, *args, architecture=architecture)


# What a function of a definition returns ------------------------------------------------------------------------------


def returned(folder, function, *args, architecture="sm_80", **options):
    return GpuCompiler(function, *args, **options).compiled(folder, architecture, folder / "cache")


@GPU_TOOLS
def test_code_that_a_function_returns_is_read_as_a_file(tmp_path):
    text, got = ptx(scale()), []
    cubin, _ = assembled(text, "sm_80", tmp_path)
    wanted = figures(tmp_path, "k.cubin")
    for code in (text, text.encode(), cubin, fatbin((2, 80, cubin)), (cubin, 0)):
        assert returned(tmp_path, lambda architecture, code=code: got.append(architecture) or code) == wanted
    assert got == ["sm_80"] * 5
    larger = returned(tmp_path, lambda _: (cubin, 60_000), ["sm_80"], ["scale"], threads=1024)
    assert larger.figures["shared_bytes"] == wanted.figures["shared_bytes"] + 60_000
    assert larger.occupancies == {"scale": "64 of 64 warps"}


def missing(_):
    import no_such_language.parts  # noqa: F401


def refusing(_):
    raise RuntimeError("\x1b[1mno kernel\x1b[0m at 3:7:\n\n  line one\n  line two\n     ^^^^\n unknown attribute")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (missing, "missing needs the module no_such_language, which neither this Python nor this commit has: install"),
        (partial(missing), "missing needs the module no_such_language, "),
        (refusing, r"refusing does not compile for sm_80: no kernel at 3:7: line one \.\.\. unknown attribute$"),
        (lambda _: None, r"<lambda> returned NoneType for sm_80; wanted the bytes of a cubin, PTX, code object, "),
        (lambda _: (b"", "1"), r"<lambda> returned tuple for sm_80; wanted the bytes"),
        (lambda _: b"text", r"<lambda> has no GPU code that is read here"),
        (lambda _: ptx(scale(), target="sm_90"), r"<lambda> has no code for sm_80; it has PTX of sm_90"),
        (lambda _: b"\x7fELF\x02\x01", r"what <lambda> returned: a damaged ELF file"),
    ],
)
def test_function_without_code_is_named_in_a_line(tmp_path, function, words):
    with pytest.raises(NotCountedError, match=words) as raised:
        returned(tmp_path, function)
    assert "\n" not in str(raised.value)


@GPU_TOOLS
def test_without_tools_the_other_figures_stay(tmp_path, monkeypatch):
    assembled(ptx(scale()), "sm_80", tmp_path)
    monkeypatch.setattr(machine_code, "tools", lambda _: [])
    made = figures(tmp_path, "k.cubin")
    assert made.figures["registers"] and made.figures["occupancy"]
    with pytest.raises(NotCountedError, match=r"no nvdisasm: `pip install nvidia-cuda-nvdisasm`"):
        made.figure("tensor_instructions")
    with pytest.raises(NotCountedError, match=r"there is only PTX for sm_80, and no ptxas: `pip install nvidia-cuda-"):
        figures(tmp_path, "k.ptx")


@GPU_TOOLS
def test_toolkit_that_is_too_old_gives_way_to_a_newer_one(tmp_path, monkeypatch):
    """A language's package may write PTX that the toolkit on PATH does not know yet."""
    (tmp_path / "k.ptx").write_text(ptx(scale()))
    old, new = tmp_path / "old", tmp_path / "new" / "bin"
    for folder in (old, new):
        folder.mkdir(parents=True)
    (new / "ptxas").symlink_to(shutil.which("ptxas"))
    (old / "ptxas").write_text("#!/bin/sh\necho 'fatal: Unsupported .version 9.5' >&2\nexit 1\n")
    (old / "ptxas").chmod(0o755)
    monkeypatch.setenv("PATH", f"{old}{os.pathsep}{PATH}")
    monkeypatch.setenv("CUDA_HOME", str(new.parent))
    assert figures(tmp_path, "k.ptx").figures["registers"]


@GPU_TOOLS
def test_unknown_architecture_lacks_what_depends_on_it(tmp_path):
    cubin, _ = assembled(ptx(scale()), "sm_80", tmp_path)
    at = 0x31 if cubin[8] >= 8 else 0x30  # since CUDA 13 the second byte of e_flags has the architecture
    assert cubin[at] == 80
    other = (cubin[:at] + bytes([79]) + cubin[at + 1 :]).replace(b"-arch sm_80", b"-arch sm_79")
    (tmp_path / "k.fatbin").write_bytes(fatbin((2, 79, other), (77, 79, b"of another kind")))
    made = figures(tmp_path, "k.fatbin", architecture="sm_79")
    assert made.figures["registers"] and "occupancy" not in made.figures
    assert made.missing["occupancy"].startswith("the limits of sm_79 are not in this version, but of sm_80, ")


@GPU_TOOLS
def test_occupancy_needs_the_threads_of_a_block(tmp_path):
    (tmp_path / "k.ptx").write_text(ptx(scale().replace(".maxntid 256", "")))
    assert "scale has no launch bounds: give threads=" in figures(tmp_path, "k.ptx").missing["occupancy"]
    assert figures(tmp_path, "k.ptx", threads=1024).figures["occupancy"] == 64
    large = figures(tmp_path, "k.ptx", threads=1024, shared=100_000)
    assert (large.figures["occupancy"], large.figures["shared_bytes"]) == (32, 101_056)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_Z5scalePfi", "scale"),
        ("_ZN5space5scaleILi4EEEvPfi", "space::scale"),
        ("_ZN55_GLOBAL__N__00000000_4_k_cu_00000000_000000_000000_00005scaleEPf", "scale"),
        ("kv_scale", "kv_scale"),
        ("_Zwrong", "_Zwrong"),
    ],
)
def test_names_without_types(name, words):
    assert readable(name) == words
    assert gpu_figures.matches(name, [words]) and gpu_figures.matches(name, [name])
    assert not gpu_figures.matches(name, ["scal"])


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.slow
def test_kernels_of_cuda_agree_with_ptxas(tmp_path):
    """Local arrays are no spills, and calls are followed."""
    (tmp_path / "k.cu").write_text("""
        __device__ __noinline__ float helped(float x, float* y) { return x * y[0] + y[1]; }
        __global__ void arrays(const float* a, float* out, int n) {
            float r[300];
            for (int i = 0; i < 300; i++) r[i] = a[i];
            for (int k = 0; k < n; k++) r[k * 7 % 300] += a[k];
            out[threadIdx.x] = r[n];
        }
        __global__ void calls(float* out) { out[1] = helped(out[0], out); }
    """)
    for architecture in ("sm_80", "sm_90"):
        command = ["nvcc", "-cubin", f"-arch={architecture}", "-Xptxas", "-v", "k.cu"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        arrays, calls = (
            figures(tmp_path, "k.cubin", [name], architecture=architecture) for name in ("arrays", "calls")
        )
        assert arrays.figures["spill_bytes"] == 0 < arrays.figures["local_instructions"]
        assert arrays.figures["stack_bytes"] == 1200
        assert calls.figures["float32_instructions"] == 1  # of the function that it calls
