"""What a tracked kernel leaves running is killed at the end of its round, and named."""

import os
import re
from pathlib import Path

import pytest

from kernel_velocity import processes
from kernel_velocity.runner.asv import Reader
from tests.runner.test_child import is_alive
from tests.tricks import running

pytest.importorskip("torch", reason="the kernel's inputs are PyTorch's")
pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by /proc")
# A program without our variable whose parent has ended, and a fork of the process that measures
LEAVING = """
import os, subprocess, time
import kernel_velocity as kv
import torch

started = []

def leave():
    started.append(1)
    command = "nohup sleep 600 >/dev/null 2>&1 & echo $! > {folder}/pid-program"
    subprocess.run(["sh", "-c", command], env={{}}, start_new_session=True, check=True)
    if fork := os.fork():
        open("{folder}/pid-fork", "w").write(str(fork))
    else:
        time.sleep(600)

@kv.benchmark(cases={{"float32-64": (64,)}}, devices=["cpu"])
class Product:
    def inputs(n):
        return torch.randn(n)

    def reference(x):
        return x * 2

    def ours(x):
        started or leave()
        return x * 2
"""


def measure(folder):
    error = os.open(folder / "printed", os.O_CREAT | os.O_WRONLY)
    os.dup2(error, 2)
    outcome = running._round(folder / "product.py", "Cpu", "", ())
    (folder / "refused").write_text(outcome.refused)
    os._exit(0)


@pytest.mark.slow
def test_process_that_a_kernel_leaves_is_killed_and_named(tmp_path):
    (tmp_path / "product.py").write_text(LEAVING.format(folder=tmp_path))
    process = running.context().Process(target=measure, args=(tmp_path,))
    process.start()
    process.join()
    assert (tmp_path / "refused").read_text() == ""
    pids = {int((tmp_path / f"pid-{name}").read_text()) for name in ("program", "fork")}
    reader = Reader()
    for line in (tmp_path / "printed").read_text().splitlines():
        reader.read(line, 0.0)
    named = [
        re.fullmatch(rf"product.Cpu.time_hot ours float32-64 {processes.LEFT} process (\d+) \(.+\)", line)
        for line in reader.left
    ]
    assert {int(match[1]) for match in named} == pids
    assert [is_alive(pid) for pid in pids] == [False, False]
