"""The suite on a real device: every kernel and implementation, checked, timed without gaps, believable."""

import pytest

from benchmarks import add_mul_exp, matmul, quantize_int8
from benchmarks.harness.telemetry import decode
from benchmarks.harness.timers import CudaEventTimer, TorchEvents

torch = pytest.importorskip("torch", reason="CUDA is reached through torch")
pytestmark = [
    pytest.mark.cuda,
    # Torch 2.9 to 2.11 say so about the setting that older versions know, and about their own compiler's use of it.
    pytest.mark.filterwarnings("ignore:Please use the new API settings to control TF32:UserWarning"),
]

SMALLEST = {add_mul_exp: "float32-500k", quantize_int8: "float32-500k", matmul: "float32-512x512x512"}
COMMIT = "c" * 40


@pytest.mark.parametrize("implementation", ["eager", "compile", "native"])
@pytest.mark.parametrize("module", SMALLEST, ids=lambda module: module.__name__.split(".")[-1])
def test_a_round_on_the_device(tmp_path, monkeypatch, module, implementation):
    for name, value in {"ASV_CONF_DIR": str(tmp_path), "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    bench = module.Cuda()
    try:
        bench.setup(implementation, SMALLEST[module])
    except NotImplementedError as error:
        if implementation != "compile":
            raise
        pytest.skip(f"n/a here: {error}")  # a node without a compiler or a CUDA toolkit
    bench.measure("k.Cuda.time_hot", implementation, SMALLEST[module])
    (line,) = (tmp_path / ".asv" / "spool" / "env" / f"{COMMIT}.jsonl").read_text().splitlines()
    record = decode(line)
    assert "underfed" not in record.flags
    # No kernel here moves its bytes faster than the fastest cache, or takes longer than a launch-bound sequence.
    moved = module.Cuda.bytes[SMALLEST[module]]
    assert moved / record.estimate < 30e12
    assert record.estimate < 500e-6


def test_events_read_a_kernel_of_known_length_alike():
    timer = CudaEventTimer(TorchEvents("cuda"))
    spin = lambda: torch.cuda._sleep(20_000)  # noqa: E731 - about 10 us
    timer.samples(spin, 1, 64)  # the clock rises
    samples = timer.samples(spin, 1, 64)
    assert not timer.flags
    assert max(samples) < 1.2 * min(samples)
    single, batched = sorted(samples)[32], sorted(timer.samples(spin, 16, 32))[16]
    assert batched == pytest.approx(single, rel=0.2)
