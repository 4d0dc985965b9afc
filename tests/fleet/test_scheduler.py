"""What --fleet names: understood, or refused in one line with the cure."""

import io
import math
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.errors import UsageError
from kernel_velocity.fleet import scheduler, slurm, worker

FLEET = pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="the extra `fleet` is not installed")


@pytest.mark.parametrize(
    ("text", "kind", "count", "options"),
    [
        ("tls://10.0.0.1:8786", "tls", 0, {}),
        ("local:3", "local", 3, {}),
        ("slurm:partition=gpu,nodes=4,gpus=1", "slurm", 4, {"partition": "gpu", "gpus": "1"}),
    ],
)
def test_forms(text, kind, count, options):
    result = scheduler.parse(text)
    assert (result.kind, result.count, result.options) == (kind, count, options)


@pytest.mark.parametrize("text", ["", "local:0", "tcp://host", "slurm:partition=gpu", "slurm:nodes=2,color=red"])
def test_other_forms_are_refused_with_what_is_wanted(text):
    with pytest.raises(UsageError, match=r"--fleet '.*': .*wanted"):
        scheduler.parse(text)


@pytest.mark.parametrize("protocol", ["tcp", "ws", "ucx"])
def test_scheduler_without_encryption_is_refused_unless_insecure(protocol):
    err = io.StringIO()
    assert main(["track", "--fleet", f"{protocol}://10.0.0.1:8786"], io.StringIO(), err) == 2
    assert err.getvalue().startswith(f"error: --fleet {protocol}://10.0.0.1:8786: {protocol}:// has no encryption")
    assert "wanted tls://10.0.0.1:8786" in err.getvalue() and "or --insecure" in err.getvalue()
    assert err.getvalue().count("\n") == 1
    assert scheduler.parse(f"{protocol}://10.0.0.1:8786", insecure=True).kind == protocol


@FLEET
def test_only_the_run_reaches_its_local_scheduler():
    import dask
    import distributed  # here, as it starts threads

    often = dask.config.set({"distributed.client.scheduler-info-interval": "1ms"})  # what the client asks by itself
    with often, scheduler.connected(local := scheduler.parse("local:1")) as (client, jobs):
        assert jobs is None
        scheduler.wait(client, local, print)
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert client.cluster.scheduler.http_server.address == "127.0.0.1"
        assert scheduler.dashboard(client, local).startswith("http://127.0.0.1:")
        assert client.run(abs, -1) == dict.fromkeys(scheduler.addresses(client), 1)
        assert {len(scheduler.addresses(client)) for _ in range(300)} == {1}
        plain, foreign = address.replace("tls", "tcp"), distributed.Security.temporary()
        for target, security in ((plain, None), (address, foreign)):
            with pytest.raises(OSError):
                distributed.Client(target, security=security, timeout=5)
        for text in (plain, address):
            wanted = scheduler.parse(text, insecure=True)
            with pytest.raises(UsageError, match=r"cannot connect .*certificates in Dask"):
                scheduler.connected(wanted).__enter__()
        client.close()
        with pytest.raises(UsageError, match=r"the scheduler is gone .*: start it again; the same command goes on"):
            scheduler.addresses(client)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30:00", 1800), ("1-02:00:05", 93605), ("5", 5), ("UNLIMITED", math.inf), ("INVALID", math.inf)],
)
def test_times_of_slurm(text, seconds):
    assert slurm.seconds(text) == seconds


def test_missing_package_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(UsageError, match=r"distributed, which is not installed: pip install 'kernel-velocity\[fleet\]'"),
        scheduler.connected(scheduler.parse("local:1")),
    ):
        pass


@FLEET
def test_interrupt_stays_one_beside_dask_jobqueue():
    script = (
        "import signal; from kernel_velocity.fleet import scheduler; scheduler._module('dask_jobqueue')\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("option", ["--anchors=2", "--session=5", "--insecure"])
def test_options_of_a_fleet_need_one(option):
    err = io.StringIO()
    assert main(["track", option], io.StringIO(), err) == 2
    assert "is for --fleet" in err.getvalue()


@pytest.mark.parametrize("option", ["--every=0", "--minutes=0"])
def test_options_of_a_long_range_are_positive(option):
    err = io.StringIO()
    assert main(["track", "--every=2", option], io.StringIO(), err) == 2
    assert f"error: {option.split('=')[0]} must be a positive number of" in err.getvalue()


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "node-1.cluster"),
        ({"SLURM_JOB_GPUS": "2,3"}, "node-1.cluster-gpu2-3"),
        ({"KV_MACHINE": "mine"}, "mine"),
        ({"SLURMD_NODENAME": "node-1"}, "node-1.cluster"),  # as ever
        ({"SLURMD_NODENAME": "blade7", "SLURM_JOB_GPUS": "0"}, "blade7-gpu0"),  # one of several nodes of a host
    ],
)
def test_machine_is_named_after_its_part_of_a_host(monkeypatch, variables, name):
    monkeypatch.setattr(worker.socket, "gethostname", lambda: "node-1.cluster")
    monkeypatch.setattr(worker.host, "device", lambda: "cpu")
    for variable in ("SLURM_JOB_GPUS", "SLURMD_NODENAME", "KV_MACHINE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert worker.describe()["name"] == name


class Answers:
    """A client of a scheduler that has one worker."""

    scheduler = SimpleNamespace(identity=lambda n_workers: {"workers": {"tcp://a:1": {"name": "a"}}})

    def sync(self, call, **arguments):
        return call(**arguments)


def test_worker_without_this_package_is_named_with_the_cure():
    class Client(Answers):
        def run(self, function, workers, on_error):
            return {workers[0]: ModuleNotFoundError("no", name="kernel_velocity")}

    with pytest.raises(UsageError, match=r"tcp://a:1: has no kernel_velocity: pip install"):
        scheduler.machines(Client(), scheduler.parse("tls://a:1"), {"tcp://a:1"}, print)


def test_worker_that_fails_to_describe_itself_is_named():
    class Client(Answers):
        def run(self, function, workers, on_error):
            return {workers[0]: OSError("no nvidia-smi")}

    lines = []
    assert scheduler.machines(Client(), scheduler.parse("tls://a:1"), {"tcp://a:1"}, lines.append) == []
    assert lines == ["note: tcp://a:1: gets no job, as it cannot say what it is: OSError: no nvidia-smi"]
