"""A node as clusters have them, made on this machine: a foreign environment with torch, and nothing else.

The run gets an empty environment (`env -i`), namespaces of its own (no network: not even the loopback is up, its own
/opt, where the foreign environment lies, its own processes, so that killing one kills all), no terminal and no HOME.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1]
# By its file: a package `tests` in a process's modules would be the node's, and not that of the tests which it runs.
SITE_CUSTOMIZE = """
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

spec = spec_from_file_location("_on_import", Path(__file__).with_name("tests") / "fake_cuda" / "on_import.py")
module = module_from_spec(spec)
spec.loader.exec_module(module)
module.install()
"""

NAMESPACES = ["unshare", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def why_not() -> str | None:
    """Return why this machine cannot play a node, or None."""
    if shutil.which("unshare") is None:
        return "no unshare (util-linux): namespaces cannot be made"
    done = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"no namespaces here: {done.stderr.strip()}"


def torch_environment(folder: Path, python: str = sys.executable) -> Path:
    """Make a virtual environment with this Python's torch and what torch needs, by hard links. Return its folder."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in sorted(needed_by("torch") | {"numpy"}):
        for file in importlib.metadata.distribution(name).files or ():
            source, target = Path(file.locate()), site / file
            if source.is_file() and site in target.parents and ".." not in file.parts:
                target.parent.mkdir(parents=True, exist_ok=True)
                link(source.resolve(), target)
    return folder


def add_fake_gpu(environment: Path) -> None:
    """Give an environment with torch a GPU, which tests/fake_cuda plays in each of its processes."""
    (site,) = environment.glob("lib/python*/site-packages")
    names = ("__init__.py", "engine/__init__.py", "engine/pretend_nvml.py")
    for file in [*map(TESTS.joinpath, names), *(TESTS / "fake_cuda").iterdir()]:
        if file.is_file():
            target = site / "tests" / file.relative_to(TESTS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    (site / "sitecustomize.py").write_text(SITE_CUSTOMIZE)
    driver = environment / "bin" / "nvidia-smi"  # that there is one says that there is a GPU
    driver.write_text("#!/bin/sh\n")
    driver.chmod(0o755)
    script = "from pathlib import Path; from tests.fake_cuda import device; device.build(Path(sys.argv[1]))"
    command = [sys.executable, "-c", f"import sys; {script}", str(site / "tests" / "fake_cuda")]
    subprocess.run(command, check=True, cwd=TESTS.parent)


def link(source: Path, target: Path) -> None:
    """Link a file, or copy it where the folders lie on two file systems."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def needed_by(name: str) -> set[str]:
    """Return the installed distributions that a distribution needs, itself included."""
    result: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in result:
            continue
        result.add(name)
        for requirement in importlib.metadata.requires(name) or ():
            if ";" not in requirement:
                waiting.append(re.match(r"[A-Za-z0-9._-]+", requirement)[0])
    return result


def command(opt: Path, script: Path, *arguments: str, variables: Sequence[str], processes: int = 0) -> list[str]:
    """Return the command that runs a script on the node.

    Args:
        opt: what the node has as /opt.
        variables: its environment, such as "KV_CUDA=OFF".
        processes: how many ran there before. In a namespace the numbers of processes would be the same at each start,
            as they never are on a real node.
    """
    before = f"i=0; while [ $i -lt {processes} ]; do env true; i=$((i + 1)); done"
    inside = f'mount --bind "{opt}" /opt && cd / && {before}; env -i {" ".join(variables)} sh "$@"; exit $?'
    return [*NAMESPACES, "sh", "-c", inside, "node", str(script), *arguments]


def has_torch() -> bool:
    """Return whether this Python has a torch to put into the node's foreign environment."""
    return any(True for _ in importlib.metadata.distributions(name="torch"))
