"""What a machine says of itself: facts by name, without torch, with and without a GPU's driver."""

import json
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import kernels
from kernel_velocity.results import lines, sessions
from kernel_velocity.runner import fingerprint
from kernel_velocity.runner.build_info import code_hash


class FakeNvml(types.ModuleType):
    """A driver with two GPUs of one kind."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    class NVMLError(Exception):
        pass

    def __init__(self, broken=False, power=(700, 700)):
        super().__init__("pynvml")
        self.broken, self.power, self.shut = broken, power, False

    def nvmlInit(self):
        if self.broken:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self):
        self.shut = True

    def nvmlSystemGetDriverVersion(self):
        return b"560.35"

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}{handle}-x"

    def nvmlDeviceGetName(self, handle):
        return "Imaginary 9"

    def nvmlDeviceGetApplicationsClock(self, handle, which):
        if which == self.NVML_CLOCK_MEM:
            raise self.NVMLError("Not Supported")
        return 1980

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return self.power[handle]


@pytest.fixture
def nvml(monkeypatch):
    def install(**options):
        found = FakeNvml(**options)
        monkeypatch.setitem(sys.modules, "pynvml", found)
        return found

    return install


def test_a_driver_and_its_gpus_are_facts_and_what_is_not_said_is_left_out(nvml):
    library = nvml()
    facts = fingerprint.now({})
    assert facts["driver"] == "560.35"
    assert facts["gpu"] == "Imaginary 9; SM clock, MHz 1980; power limit, mW 700"
    assert library.shut


def test_gpus_that_are_alike_are_named_once_and_others_apart(nvml):
    nvml(power=(700, 500))
    assert fingerprint.now({})["gpu"].count("Imaginary 9") == 2
    assert fingerprint.now({"CUDA_VISIBLE_DEVICES": "GPU-11"})["gpu"].endswith("power limit, mW 500")


def test_without_a_driver_there_are_no_facts_of_it(nvml, monkeypatch):
    nvml(broken=True)
    assert not {"driver", "gpu"} & fingerprint.now({}).keys()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert not {"driver", "gpu"} & fingerprint.now({}).keys()


def test_facts_are_texts_and_the_same_a_moment_later():
    facts = fingerprint.now({"KV_THREADS": "2"})
    assert facts["threads"] == "2" and {"system", "python"} <= facts.keys()
    assert all(isinstance(text, str) and text for text in facts.values())
    assert fingerprint.now({"KV_THREADS": "2"}) == facts


def test_torch_is_not_imported():
    script = (
        "import sys; from kernel_velocity.runner.fingerprint import now; now({}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("text", "cuda"),
    [("cuda: Optional[str] = None\n", None), ("cuda: Optional[str] = '12.8'\n", "12.8"), ("cuda = '11.8'\n", "11.8")],
)
def test_the_cuda_of_torch_is_read_from_its_version(tmp_path, monkeypatch, text, cuda):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '2.13'\n{text}")
    spec = types.SimpleNamespace(origin=str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr(fingerprint.importlib.util, "find_spec", lambda name: spec)
    assert fingerprint.now({}).get("cuda") == cuda


def test_a_record_holds_the_machine_the_compilers_and_the_code(tmp_path):
    folder = tmp_path / "unpacked" / "kernels" / "_native"
    folder.mkdir(parents=True)
    info = {"cxx_compiler": "GNU", "cxx_compiler_version": "12.2", "cuda_compiler_version": None}
    info["kernels"] = {"matmul": {"code_hash": "abc", "ptxas": []}}
    (folder / "build-info.json").write_text(json.dumps(info))
    file = tmp_path / "results" / "bench-1" / "abc-env.json"
    fingerprint.record(file, 5.0, tmp_path / "unpacked", {})
    (session,) = lines.read_sessions(file, [])
    assert session.began == 5.0
    assert session.code == {"matmul": code_hash(tmp_path / "unpacked", "matmul")} and session.code["matmul"]
    assert session.facts["cxx compiler version"] == "12.2" and "cuda compiler version" not in session.facts
    assert sessions.COMPILERS & session.facts.keys() == {"cxx compiler", "cxx compiler version"}


def test_the_library_of_a_wheel_says_which_instructions_it_runs(tmp_path):
    folder = tmp_path / "unpacked" / "kernels" / "_native"
    folder.mkdir(parents=True)
    assert fingerprint.isa_of(tmp_path / "unpacked") == {}
    library = folder / "libkernel_velocity.so"
    library.write_bytes(b"of another system")
    assert fingerprint.isa_of(tmp_path / "unpacked") == {}
    library.unlink()
    shutil.copy(Path(kernels.__file__).parent / "_native" / library.name, library)
    file = tmp_path / "results" / "bench-1" / "abc-env.json"
    fingerprint.record(file, 5.0, tmp_path / "unpacked", {})
    (session,) = lines.read_sessions(file, [])
    assert session.facts["isa"] == kernels.cpu_isa()


def test_a_library_from_before_there_was_a_choice_says_nothing(monkeypatch):
    monkeypatch.setattr(fingerprint.ctypes, "CDLL", lambda path: types.SimpleNamespace())
    assert fingerprint.isa_of(Path("unpacked")) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kernels": 5}', '{"kernels": {"matmul": {"code_hash": 5}}}'])
def test_a_wheel_that_does_not_say_has_no_code_hashes(tmp_path, text):
    folder = tmp_path / "kernels" / "_native"
    folder.mkdir(parents=True)
    (folder / "build-info.json").write_text(text)
    assert fingerprint.code_of(fingerprint.build_info(tmp_path), tmp_path) == {}
    assert fingerprint.build_info(tmp_path / "nothing") == {}
