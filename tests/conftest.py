"""Options, fixtures and skips that every test shares."""

import dataclasses
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from kernel_velocity import lock, progress
from kernel_velocity.suite.originals import ORIGINALS, Originals
from tests.machine.planted_limits import plant_limits
from tests.site.browser import chromium, playwright, tab

try:
    import hypothesis
except ImportError:  # a node that only measures has none
    pass
else:  # a busy machine must fail no property: no deadline
    hypothesis.settings.register_profile("kernel-velocity", deadline=None)
    # Where the CPU's code computes, which others test: what is around it does not depend on the numbers
    hypothesis.settings.register_profile("fake device", deadline=None, max_examples=10)
    hypothesis.settings.load_profile("kernel-velocity")

__all__ = ["chromium", "playwright", "tab"]  # one browser a process: Playwright starts once


def pytest_addoption(parser):
    parser.addoption("--accept-golden", action="store_true", help="write the golden files instead of comparing")
    parser.addoption("--fake-cuda", action="store_true", help="run the tests of CUDA on a fake device, without a GPU")


def pytest_configure(config):
    if config.getoption("--fake-cuda"):
        import torch

        from tests.fake_cuda.plant import plant

        if torch.version.cuda is not None:
            raise pytest.UsageError(f"--fake-cuda needs PyTorch's CPU build, here is {torch.__version__}")
        if "hypothesis" in sys.modules:
            hypothesis.settings.load_profile("fake device")
        with tempfile.TemporaryDirectory() as folder:
            plant(Path(folder))


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard():
    """A shell has what it starts in the background ignore Ctrl-C, and all that the tests start would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def no_progress_is_told():
    """A command that takes 30 s on a busy machine prints what it prints on any other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "LINES", float("inf"))
        yield


@pytest.fixture(scope="session", autouse=True)
def machine_of_its_own(tmp_path_factory):
    """Tests lock no machine but one of their process's own: a night that goes on here is none of their business."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KV_LOCK_FOLDER", str(tmp_path_factory.mktemp("machine")))
        plant_limits(patch)
        yield


@pytest.fixture(autouse=True)
def originals_of_its_own(monkeypatch):
    """Functions that another test had replaced are no originals."""
    monkeypatch.setattr(ORIGINALS, "__dict__", vars(Originals()))


@pytest.fixture(autouse=True)
def locks_released_in_the_end(monkeypatch):
    """A run of asv holds its lock until its process ends. Here that is the test's end."""
    acquired, take = [], lock.take

    def noted(*args, **named):
        locks = take(*args, **named)
        acquired.extend([] if locks is None else [locks])
        return locks

    monkeypatch.setattr(lock, "take", noted)
    yield
    for locks in reversed(acquired):
        locks.close()


@pytest.fixture(scope="session")
def on_host():
    """CUDA kernels that run on the CPU: `on_host.kernel("matmul")` is compiled when it is first asked for."""
    from tests.cuda_on_host.building import Builder

    return Builder()


SLOW_FILES = pytest.StashKey()  # of the session's configuration: files with slow tests, of all that were collected
# Files that begin, the longest first, else a core would be idle while the other is at one of these in the end. Slurm
# has its tests wait for minutes.
LONGEST = (
    *("fleet/test_slurm", "fleet/test_rehearsal", "runner/test_code_identity", "scaffold/test_any_repository"),
    *("faults/test_nightly", "scaffold/test_adding_a_kernel", "kernels/test_build", "faults/test_gate"),
    *("compare/test_gpu_mode_cuda", "faults/test_killed_nights", "faults/test_errors_tracked", "tricks/test_tricks"),
    *("faults/test_faults", "kernels/test_cuda_on_host", "site/test_browser_crawl", "fake_cuda/test_cuda_tests"),
    *("scaffold/test_new", "scaffold/test_new_public", "kernels/test_add_mul_exp", "site/test_other_suites"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):  # words: pytest gives its arguments by name
    """Begin with the longest files. Skip CUDA tests where there is no CUDA device, with the reason."""
    config.stash[SLOW_FILES] = {test.path for test in items if test.get_closest_marker("slow")}
    ranks = {f"tests/{name}.py": rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda test: ranks.get(test.nodeid.partition("::")[0], len(ranks)))
    if not any("cuda" in test.keywords for test in items):
        return
    try:
        import torch

        reason = None if torch.cuda.is_available() else "PyTorch sees no CUDA device"
    except ModuleNotFoundError:
        reason = "PyTorch is not installed"
    native = reason or _why_no_native_kernel()
    if config.getoption("--fake-cuda"):
        from tests.fake_cuda.plant import NEEDS_A_DEVICE

        for test in items:
            if why := NEEDS_A_DEVICE.get(test.originalname):
                test.add_marker(pytest.mark.skip(reason=f"a fake device: {why}"))
    for test in items:
        if test.get_closest_marker("cuda"):
            why = native if _is_native(test) else reason
            if why is not None:
                test.add_marker(pytest.mark.skip(reason=why))


def _is_native(test):
    """Whether a CUDA test calls a kernel of ours: those of the kernels, and the rounds of `native`."""
    return "kernels" in test.path.parts or "native" in test.name


def _why_no_native_kernel():
    """Why the kernels that are built here cannot run on the GPU that PyTorch sees: no nvcc, an old driver."""
    try:
        import kernels
    except ImportError as error:
        return f"the kernels are not built: {error}"
    return kernels.cuda_status()


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The synthetic tree, built once. Nobody may change it."""
    from tests import synthetic  # here, because a node that only measures has not what it imports

    return synthetic.build(tmp_path_factory.mktemp("built"))


@pytest.fixture
def tree(tmp_path, built):
    """A fresh repository and results tree that a test may damage: a copy, which takes a fifteenth of building one."""
    for name in ("repository", "results"):
        shutil.copytree(built.repository.parent / name, tmp_path / name)
    return dataclasses.replace(built, repository=tmp_path / "repository", results=tmp_path / "results")


@pytest.fixture(scope="session")
def copy_of(built):
    """What copies the results of `built` into a folder and returns the tree. Its repository is everybody's."""

    def copy(folder):
        shutil.copytree(built.results, folder / "results")
        return dataclasses.replace(built, results=folder / "results")

    return copy


@pytest.fixture
def copied(copy_of, tmp_path):
    """A results tree that a test may damage, and a repository that it may not."""
    return copy_of(tmp_path)


@pytest.fixture(scope="session")
def whole_tree(tmp_path_factory):
    """A tree with everything that pages can show, to be read only."""
    from tests.findings import synthetic_extras

    return synthetic_extras.whole(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def hostile_tree(tmp_path_factory):
    """The same with names that want to be code, to be read only."""
    from tests.findings import synthetic_extras

    return synthetic_extras.hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def accept(request):
    """Whether golden files are written instead of compared: pytest --accept-golden."""
    return request.config.getoption("--accept-golden")


@pytest.fixture
def lock_of_its_own(tmp_path, monkeypatch):
    """`compare` takes the lock of a folder of this test: others compare at the same time."""
    monkeypatch.setattr("kernel_velocity.compare.command.root_folder", lambda environ: tmp_path)
    monkeypatch.delenv(lock.HOLDER, raising=False)
