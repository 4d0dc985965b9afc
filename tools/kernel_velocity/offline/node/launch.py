"""Start a run on the node: find the Python that has PyTorch, set up an environment, and run `kv offline run`.

Started by `run` under any Python from 3.8 on, with nothing installed and nothing in the environment. Imports nothing
of ours. What it makes lies in the work folder: a clone of the bundle, and a virtual environment that has the carried
wheels and borrows PyTorch's site folders by a path file. Nothing is installed into PyTorch's own environment.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
# Where container images and clusters keep the environment with PyTorch, after what is active and what PATH names.
INTERPRETERS = "/opt/*/bin/python3 /opt/*/.venv/bin/python3 /opt/*/venv/bin/python3 /opt/conda/envs/*/bin/python3 "
INTERPRETERS += (
    "/.venv/bin/python3 /venv/bin/python3 /usr/local/bin/python3* /usr/bin/python3* /usr/local/*/bin/python3 "
)
INTERPRETERS += "/workspace/*/bin/python3 /workspace/*/.venv/bin/python3"
CUDA_HOMES = ("/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/opt/nvidia/cuda*")
OLDEST = (3, 11)  # Python that the suite runs on (pyproject.toml)
NEEDED = 1_500_000_000  # bytes free in the work folder: environment, builds, compiled packages, traces
OPTIONS: dict[str, dict[str, Any]] = {  # of `kv offline run`
    "minutes": {"type": float, "help": "end this time slice after so many minutes (default: when all is done)"},
    "device": {"choices": ("auto", "cpu", "cuda"), "default": "auto", "help": "what to measure (default: auto)"},
    "rounds": {"type": int, "default": 8, "help": "rounds of every series (default 8)"},
    "tier": {"choices": ("core", "full"), "default": "full", "help": "the last tier measured (default full)"},
    "bench": {"help": "only series that match this regular expression"},
    "together": {"type": int, "default": 3, "help": "commits whose rounds are interleaved (default 3)"},
    "stages": {"help": "only these: doctor, build, tests, sharing, ceilings, newest, core, timers, traces, full"},
    "trace-seconds": {"type": float, "default": 1.0, "help": "length of a raw trace, s (default 1)"},
    "resume-from": {"type": os.path.abspath, "help": "the tar of an earlier slice, of another node of the same kind"},
}
PROBE = (
    "import importlib.metadata as m, json, site, sys\n"
    "found = [d.version for d in m.distributions(name='torch')]\n"
    "print(json.dumps([sys.version_info[:2], found[0] if found else None, site.getuserbase()]))\n"
)
log = Path(os.devnull)  # OUT/node.log, once OUT is known


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `kv offline run`, which are handed on to it."""
    for name, more in OPTIONS.items():
        parser.add_argument(f"--{name}", **more)


def say(line: str, *, error: bool = False) -> None:
    """Print a line, and append it to the log."""
    with contextlib.suppress(OSError):  # a terminal that went away
        print(line, file=sys.stderr if error else sys.stdout, flush=True)
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")


def fail(line: str) -> NoReturn:
    """End with the one line of an error."""
    say(f"error: {line}", error=True)
    raise SystemExit(2)


def read_manifest() -> dict[str, Any]:
    """Return the pack's manifest, or fail: the folder is no whole pack, or one for another processor."""
    try:
        text = (HERE / "manifest.json").read_text(encoding="utf-8")
        manifest: dict[str, Any] = json.loads(text)
        whole, _, _ = text.rpartition(',"#":')  # as harness/documents.py, which is in the pack and not yet unpacked
        if manifest["#"] != f"{zlib.crc32(f'{whole}}}'.encode()):08x}":
            raise ValueError("changed since it was written, by its checksum (#)")
        sizes: dict[str, int] = manifest["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        fail(f"{HERE}: no pack here (manifest.json: {error}); make one with `kv offline pack DIR`")
    for name, size in sizes.items():
        path = HERE / name
        got = f"{path.stat().st_size} bytes" if path.is_file() else "nothing"
        if got != f"{size} bytes":
            fail(f"{path}: {size} bytes wanted, got {got}: the copy of the pack broke off, copy it again")
    here, there = platform.machine(), manifest["platform"]
    if here != there:
        fail(f"this node is {here}, the pack is for {there}: pack again with --platform {here}")
    return manifest


def matching(patterns: Any) -> list[str]:
    """Return the paths that absolute patterns match, in their order."""
    return [str(path) for pattern in patterns for path in sorted(Path("/").glob(pattern.lstrip("/")))]


def candidates(named: str | None) -> list[str]:
    """Return the Pythons to look for PyTorch in, the likeliest first. The one that was named alone."""
    if named is not None:
        return [os.path.abspath(named)]  # noqa: PTH100 - resolve() would leave a virtual environment through its link
    active = [os.environ[name] + "/bin/python3" for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(name)]
    on_path = [path for name in ("python3", "python") if (path := shutil.which(name))]
    paths = dict.fromkeys([*active, *on_path, *matching(INTERPRETERS.split())])
    return [path for path in paths if not path.endswith("-config") and os.access(path, os.X_OK)]


def find_python(named: str | None, packed: list[str]) -> tuple[str, str]:
    """Return the Python to measure with and the folder of its user's own packages, or fail."""
    tried = []
    for path in candidates(named):
        try:
            done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, check=True, timeout=60)
            (major, minor), torch, user_base = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError):
            tried.append(f"{path} (does not run)")
            continue
        if torch is not None and f"{major}.{minor}" in packed:
            say(f"torch {torch} of {path} (Python {major}.{minor})")
            return path, user_base
        cure = "pack again with --pythons" if (major, minor) >= OLDEST else "too old for the suite"
        unfit = f"torch {torch}, but Python {major}.{minor}; packed for {', '.join(packed)}: {cure}"
        tried.append(f"{path} ({'no torch' if torch is None else unfit})")
    fail(f"no PyTorch to measure with; looked in {', '.join(tried) or 'nothing'}: name its Python with --python")


def variables(work: Path, python: str, user_base: str) -> dict[str, str]:
    """Return the environment of everything that runs here: whole where the node's is bare."""
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    # On a shared disk files may belong to another user than the one that made them (root, squashed): git would refuse.
    (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n", encoding="utf-8")
    cuda = cuda_home()
    path = [str(Path(python).parent), *([f"{cuda}/bin"] if cuda else []), os.environ.get("PATH", "")]
    # Without an image's PIP_*: its constraints are not about what is carried here.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("ASV", "PIP_", "PYTHONHOME"))}
    return {
        **inherited,
        "HOME": str(home),
        "USER": os.environ.get("USER") or "node",  # torch's compiler asks for it where the user id has no name
        "LANG": os.environ.get("LANG") or "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUSERBASE": user_base,
        "TORCHINDUCTOR_CACHE_DIR": str(work / "cache" / "inductor"),
        "TRITON_CACHE_DIR": str(work / "cache" / "triton"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PATH": os.pathsep.join(path),
        **({"CUDA_HOME": cuda} if cuda else {}),
    }


def cuda_home() -> str | None:
    """Return the CUDA toolkit's folder: the one that is named, or the usual ones. None where there is none."""
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    nvcc = shutil.which("nvcc")
    beside = [str(Path(nvcc).resolve().parents[1])] if nvcc else []
    usual = [path for pattern in CUDA_HOMES for path in reversed(matching([pattern]))]  # of several, the newest
    return next((folder for folder in [*named, *beside, *usual] if os.access(f"{folder}/bin/nvcc", os.X_OK)), None)


def command(args: list[str], environ: dict[str, str], cwd: Path) -> None:
    """Run a command, or fail with the last line that it printed."""
    done = subprocess.run(
        args, check=False, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()] or ["it printed nothing"]
        for line in lines:
            say(f"  {line}")
        fail(f"{' '.join(args[:4])} ...: status {done.returncode}: {lines[-1].strip()}")


def check_out(repo: Path, head: str, environ: dict[str, str]) -> None:
    """Bring the bundle's newest commit into the clone. What is recorded there stays."""
    if shutil.which("git", path=environ["PATH"]) is None:
        fail("git is not installed on this node: asv needs it; install it, or take an image that has it")
    repo.mkdir(parents=True, exist_ok=True)
    steps = (
        ["git", "init", "-q", "."],
        ["git", "fetch", "-q", str(HERE / "repository.bundle"), "HEAD"],
        ["git", "checkout", "-q", "--detach", "--force", head],
    )
    if any(subprocess.call(step, cwd=repo, env=environ, stderr=subprocess.DEVNULL) != 0 for step in steps):
        shutil.rmtree(repo / ".git", ignore_errors=True)  # left over by a git that was killed; results are not in it
        for step in steps:
            command(step, environ, repo)


def take_lock(work: Path) -> None:
    """Keep the work folder to this run, or fail. The file stays open, also in what this process becomes."""
    descriptor = os.open(work / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail(f"{work}: another run is at work here; wait for it, or name another folder with --work")
    except OSError as error:
        fail(f"{work}: files cannot be locked here ({error}): name a folder on a local disk with --work")
    os.set_inheritable(descriptor, True)


def arguments(argv: list[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="sh run",
        description="Measure the packed commits on this node. Run it again to resume; exit status "
        "75 says that work is left.",
    )
    parser.add_argument("out", type=Path, help="where the tar, the summary and the log appear")
    parser.add_argument(
        "--work", type=Path, help="environment, builds, caches (default: OUT/work); a local disk is best"
    )
    parser.add_argument("--python", help="the Python that has PyTorch (default: looked for)")
    add_options(parser)
    return parser.parse_args(argv)


def main() -> None:
    """Set up, then become the run."""
    global log  # noqa: PLW0603 - everything here says what it does
    began = time.time()
    args = arguments(sys.argv[1:])
    out = args.out.absolute()
    work = (args.work or out / "work").absolute()
    repo, venv = work / "repository", work / "venv"
    try:
        for folder in (out, work):
            folder.mkdir(parents=True, exist_ok=True)
        log = out / "node.log"
        say(f"== {' '.join(sys.argv)}")
        manifest = read_manifest()
        free = shutil.disk_usage(work).free
        if not venv.exists() and free < NEEDED:
            fail(f"{work}: {free / 1e6:.0f} MB free, {NEEDED / 1e6:.0f} needed: name another folder with --work")
        take_lock(work)
        python, user_base = find_python(args.python, manifest["pythons"])
        environ = variables(work, python, user_base)
        check_out(repo, manifest["head"], environ)
        make = [python, "-P", str(repo / "tools" / "kernel_velocity" / "make_venv.py"), str(venv), "--torch", ""]
        command([*make, "--wheels", str(HERE / "wheels")], environ, repo)
    except OSError as error:
        fail(str(error))
    environ["PATH"] = f"{venv / 'bin'}{os.pathsep}{environ['PATH']}"
    for name in ("PYTHONPATH", "PYTHONUSERBASE"):  # their packages are borrowed by now
        environ.pop(name, None)
    values = {name: getattr(args, name.replace("-", "_")) for name in OPTIONS}
    run = [str(venv / "bin" / "python"), "-m", "kernel_velocity", "offline", "run", str(out), "--pack"]
    run += [str(HERE / "manifest.json"), "--began", str(began)]
    os.chdir(repo)
    os.execve(run[0], run + [f"--{name}={value}" for name, value in values.items() if value is not None], environ)


if __name__ == "__main__":
    main()
