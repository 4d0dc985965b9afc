"""Tasks of GPU MODE in CUDA: compiled by nvcc, verified by their own C++. What calls CUDA is n/a without a device."""

import shutil

import pytest

from kernel_velocity.compare.api import compare
from kernel_velocity.compare.implementations import load
from kernel_velocity.compare.result import RIGHT
from kernel_velocity.problem.problem import NotHereError, ProblemError
from tests.compare.doubling import QUICK
from tests.public_problems import CUDA_TASK, write

torch = pytest.importorskip("torch", reason="inputs are torch tensors")
pytestmark = [pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"), pytest.mark.timeout(900)]

ON_HOST = """
#include "task.h"
#include "utils.h"
output_t custom_kernel(input_t data) {
    const auto& [both, factor] = data;
    output_t out = both[1];
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += both[0][i] * float(factor);
    return out;
}
"""
ON_DEVICE = """
#include "task.h"
__global__ void scale(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 3; }
output_t custom_kernel(input_t data) {
    float* x = nullptr;
    cudaMalloc(&x, 64);
    scale<<<1, 16>>>(x, 16);
    return {};
}
"""


@pytest.fixture
def task(tmp_path):
    def solved(**solutions):
        path = write(tmp_path, CUDA_TASK)
        files = {name: tmp_path / f"{name}.cu" for name in solutions}
        for name, text in solutions.items():
            files[name].write_text(text)
        return load(str(path), "cpu", tuple(files.values()))

    return solved


@pytest.mark.slow  # nvcc takes 9 s a file
def test_solution_in_cuda_is_compiled_verified_and_timed(task):
    problem, implementations = task(mine=ON_HOST)
    assert list(implementations) == ["eager", "mine"]
    x, y, factor = inputs = problem.generate_sample()["create_inputs"]()
    assert (len(x), x.dtype, factor) == (6, torch.float32, 3.0)
    torch.testing.assert_close(problem.expected(*inputs), 3 * x + y)
    other = (x + 1, y, 5.0)
    torch.testing.assert_close(problem.expected(*other), 5 * (x + 1) + y)
    assert problem.verify_result(None, 5 * (x + 1) + y)[0]
    assert problem.verify_result(None, x) == (False, {"why": "error at 0"})
    both = compare(problem, implementations, settings=QUICK).compared
    assert [compared.case for compared in both] == ["size=300", "size=1000"]
    for compared in both:
        statuses = {timed.implementation: timed.status for timed in compared.timed}
        assert statuses == {"eager": RIGHT, "mine": RIGHT}, compared.timed
        assert any("mine times a region of itself" in note for note in compared.timed[1].notes)


@pytest.mark.slow  # nvcc takes 9 s a file
def test_what_is_not_here_is_told(task, tmp_path, monkeypatch):
    _, implementations = task(device=ON_DEVICE, mine="#include <no_such.h>\n")
    with pytest.raises(NotHereError, match=r"device\.cu: needs CUDA: it calls cuda(Malloc|LaunchKernel)"):
        implementations["device"].load()
    with pytest.raises(ProblemError, match=r"mine\.cu: nvcc does not compile it: .*error.*no_such") as caught:
        implementations["mine"].load()
    assert "\n" not in str(caught.value)
    write(tmp_path, {"scale/task.h": CUDA_TASK["scale/task.h"] + "// another text\n"})
    problem, _ = load(str(tmp_path / "scale"), "cpu")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(NotHereError, match="needs nvcc, which is not on PATH"):
        problem.generate_sample()["create_inputs"]()
