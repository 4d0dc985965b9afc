"""Options and skips that every test shares."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--accept-golden", action="store_true", help="write the golden files instead of comparing")


@pytest.fixture(scope="session", autouse=True)
def machine_of_its_own(tmp_path_factory):
    """Tests lock no machine but one of their process's own: a night that goes on here is none of their business."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KV_LOCK_FOLDER", str(tmp_path_factory.mktemp("machine")))
        yield


@pytest.fixture(scope="session")
def on_host(tmp_path_factory):
    """CUDA kernels that run on the CPU: `on_host.kernel("matmul")` is compiled when it is first asked for."""
    from tests.cuda_on_host.building import Builder

    return Builder(tmp_path_factory.mktemp("cuda_on_host"))


def pytest_collection_modifyitems(items):
    """Skip CUDA tests where there is no CUDA device, with the reason."""
    if not any("cuda" in item.keywords for item in items):
        return
    try:
        import torch

        reason = None if torch.cuda.is_available() else "PyTorch sees no CUDA device"
    except ModuleNotFoundError:
        reason = "PyTorch is not installed"
    native = reason or _why_no_native_kernel()
    for item in items:
        if item.get_closest_marker("cuda"):
            why = native if _is_native(item) else reason
            if why is not None:
                item.add_marker(pytest.mark.skip(reason=why))


def _is_native(item):
    """Whether a CUDA test calls a kernel of ours: those of the kernels, and the rounds of `native`."""
    return "kernels" in item.path.parts or "native" in item.name


def _why_no_native_kernel():
    """Why the kernels that are built here cannot run on the GPU that PyTorch sees: no nvcc, an old driver."""
    try:
        import kernels
    except ImportError as error:
        return f"the kernels are not built: {error}"
    return kernels.cuda_status()
