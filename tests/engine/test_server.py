"""asv's server as we start it: when series share a process, and what none hands on to the next."""

import json
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

runner = pytest.importorskip("asv.runner", reason="asv's own client is what talks to the server")

from kernel_velocity.engine import server  # noqa: E402
from kernel_velocity.errors import UsageError  # noqa: E402
from kernel_velocity.runner import host  # noqa: E402
from kernel_velocity.runner.checks import check_settings  # noqa: E402
from tests.waiting import PATIENCE, wait_until  # noqa: E402

SUITE = """
import os, signal, time

class Cuda:
    def track_process(self):
        return os.getpid()

    def track_state(self):
        return os.environ.setdefault("LEFT", str(time.time()))

    def track_error(self):
        print("a word of its own")
        raise ValueError("planted")

    def track_crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def track_child_of_crash(self):
        if os.fork() == 0:  # it still has the ends of all pipes
            time.sleep(5)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    def track_exit(self):
        os._exit(0)

    def track_hang(self):
        time.sleep(60)

class Cpu(Cuda):
    pass
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return a function that starts a server on a suite, and returns one that runs a series of it."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "bench.py").write_text(SUITE)
    servers = []

    def python(args, *, env, return_popen, redirect_stderr):
        assert return_popen and redirect_stderr
        command = [sys.executable, *host.measuring_command(args)]
        return subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )

    def started(isolate=None, *, has_driver=False):
        monkeypatch.setattr(host, "has_driver", lambda: has_driver)
        monkeypatch.delenv(server.ISOLATE, raising=False)
        if isolate is not None:
            monkeypatch.setenv(server.ISOLATE, isolate)
        client = runner.ForkServer(SimpleNamespace(env_vars={}, run=python), str(folder))
        servers.append(client)
        assert client.preimport() == (True, "")

        def run(name, timeout=PATIENCE):
            result = tmp_path / "result"
            result.write_text("")
            out, status = client.run(f"bench.{name}", "{}", "None", str(result), timeout, str(tmp_path))
            return (status, out) if status else json.loads(result.read_text())

        return run

    yield started
    for client in servers:
        client.close()
        assert client._server_output == ""


@pytest.mark.parametrize(
    ("isolate", "has_driver", "of_cuda", "of_cpu"),
    [(None, True, True, False), (None, False, False, False), ("1", True, False, False), ("0", False, True, True)],
)
def test_series_of_a_gpu_share_a_process_unless_it_is_set(start, isolate, has_driver, of_cuda, of_cpu):
    run = start(isolate, has_driver=has_driver)
    same = {name: run(f"{name}.track_process") == run(f"{name}.track_process") for name in ("Cuda", "Cpu")}
    assert same == {"Cuda": of_cuda, "Cpu": of_cpu}


def test_series_sees_nothing_of_the_one_before(start):
    run = start("0")
    assert run("Cuda.track_state") != run("Cuda.track_state")


@pytest.fixture
def state(monkeypatch):
    """What is put back in this process, whose objects stay as collectable as they are."""
    monkeypatch.setattr(server.gc, "freeze", lambda: None)
    return server.ProcessState


def test_random_numbers_begin_again(state):
    torch = pytest.importorskip("torch", reason="they are its")
    before = state()
    before.put_back()
    first = torch.rand(1)
    before.put_back()
    assert torch.rand(1) == first


def test_objects_that_hold_each_other_are_gone(state):
    class Holder:
        pass

    before, holder = state(), Holder()
    holder.itself = holder
    gone = weakref.ref(holder)
    del holder
    before.put_back()
    assert gone() is None


def test_gpu_gives_unused_memory_back_when_it_is_idle(state, monkeypatch):
    torch = pytest.importorskip("torch", reason="it holds the memory")
    cuda, done = torch.cuda, []
    monkeypatch.setattr(cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(cuda, "get_rng_state", torch.get_rng_state)
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(cuda, name, lambda name=name: done.append(name))
    state().put_back()
    assert done == ["synchronize", "empty_cache"]


def test_bad_end_costs_its_own_series_and_its_process(start):
    run = start("0")
    before = run("Cuda.track_process")
    with pytest.raises(json.JSONDecodeError):  # asv calls that a failure
        run("Cuda.track_exit")
    status, out = run("Cuda.track_error")
    assert status == 1 and out.startswith("a word of its own\n") and out.endswith("ValueError: planted\n")
    after = run("Cuda.track_process")
    assert after != before
    for name, wanted in (("crash", -signal.SIGSEGV), ("child_of_crash", -signal.SIGKILL)):
        status, out = run(f"Cuda.track_{name}")
        assert (status, "planted" in out) == (wanted, False)
    assert run("Cuda.track_hang", timeout=0.3)[0] == server.TIMED_OUT
    assert run("Cuda.track_process") not in (before, after)


def test_shared_process_ends_with_its_server(start):
    run = start("0")
    process = Path(f"/proc/{run('Cuda.track_process')}")
    stat = (process / "stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    wait_until(
        lambda: not ((process / "cmdline").exists() and (process / "cmdline").read_bytes()), "it outlived its server"
    )


def test_other_values_are_refused_in_one_line():
    with pytest.raises(UsageError, match=r"^KV_ISOLATE: got 'yes'; wanted 1 .* or 0"):
        check_settings({server.ISOLATE: "yes"})
