"""Which device a night measures, and what it says where the machine's GPU is lost."""

import json

import pytest

from kernel_velocity.errors import NothingMeasured, UsageError
from kernel_velocity.nightly import plan
from tests.results.test_session_kept_values import NAME, write

MEASURED = 1_700_000_000.0  # Unix time, s, that `write` says
DAY = 86400.0


@pytest.fixture
def folder(tmp_path):
    """A machine's results, with a time of its GPU beside one of its CPU and a file that cannot be read."""
    for number, device in enumerate(("Cpu", "Cuda")):
        path = tmp_path / "box" / f"{number}.json"
        write(path, [8, 8])
        path.write_text(path.read_text().replace(NAME, f"k.{device}.time_hot"))
    (tmp_path / "box" / "2.json").write_text('{"k.Cuda.time_hot": ')
    return tmp_path / "box"


@pytest.fixture
def found(monkeypatch):
    """Let PyTorch find, or not find, a GPU."""
    return lambda device: monkeypatch.setattr(plan.host, "device", lambda: device)


@pytest.mark.parametrize(("asked", "there", "chosen"), [(None, "cuda", "cuda"), ("cuda", "cuda", "cuda"), ("cpu",) * 3])
def test_the_gpu_is_measured_where_there_is_one_and_no_other_is_asked_for(folder, found, asked, there, chosen):
    found(there)
    assert plan.choose(asked, folder, MEASURED) == chosen


def test_a_gpu_that_is_lost_is_no_reason_to_measure_the_cpu(folder, found):
    found("cpu")
    with pytest.raises(NothingMeasured) as caught:
        plan.choose(None, folder, MEASURED + 1.5 * DAY)
    assert str(caught.value).startswith("box: nothing was measured: the GPU that was measured here 1.5 days ago")
    assert "--device cpu" in str(caught.value)
    assert plan.choose("cpu", folder, MEASURED) == "cpu"
    assert plan.choose(None, folder, MEASURED + 91 * DAY) == "cpu"  # given away


@pytest.mark.parametrize("values", [None, [None, None]])
def test_a_machine_that_has_no_time_of_a_gpu_measures_its_cpu(folder, found, values):
    found("cpu")
    path = folder / "1.json"
    path.unlink()
    if values is not None:
        write(path, values)
        said = json.loads(path.read_text().replace(NAME, "k.Cuda.time_hot"))
        path.write_text(json.dumps(said))
    assert plan.choose(None, folder, MEASURED) == "cpu"
    assert plan.choose(None, folder / "new", MEASURED) == "cpu"


@pytest.mark.parametrize(
    ("asked", "words"), [("cuda", "PyTorch can use no GPU here"), ("gpu", "cpu or cuda is wanted")]
)
def test_a_device_that_is_not_there_is_refused(folder, found, asked, words):
    found("cpu")
    with pytest.raises(UsageError, match=words):
        plan.choose(asked, folder, MEASURED)
