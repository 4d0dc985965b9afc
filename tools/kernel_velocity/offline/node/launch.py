"""On the node: finds the Python that has PyTorch, sets up beside it, and hands over to the repository's own code.

Started by `run` under any Python from 3.8 on, with nothing installed and nothing in the environment; imports nothing
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
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
BUNDLE = "repository.bundle"
# Where container images and clusters keep the environment with PyTorch, after what is active and what PATH names.
PLACES = (
    "/opt/*/bin/python3",
    "/opt/*/.venv/bin/python3",
    "/opt/*/venv/bin/python3",
    "/opt/conda/envs/*/bin/python3",
    "/.venv/bin/python3",
    "/venv/bin/python3",
    "/usr/local/bin/python3*",
    "/usr/bin/python3*",
    "/usr/local/*/bin/python3",
    "/workspace/*/bin/python3",
    "/workspace/*/.venv/bin/python3",
)
CUDA_HOMES = ("/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/opt/nvidia/cuda*")
OLDEST = (3, 11)  # Python that the suite runs on (pyproject.toml)
NEEDED = 1_500_000_000  # bytes free in the work folder: environment, builds, compiled packages, traces
HANDED_ON = {
    "minutes": "end this time slice after so many minutes (default: when all is done)",
    "device": "auto (default), cpu or cuda",
    "rounds": "rounds of every series (default 8)",
    "tier": "core or full (default), the last that is measured",
    "bench": "a regular expression that series must match",
    "together": "commits whose rounds are interleaved (default 3)",
    "stages": "only these: build, tests, ceilings, newest, timers, traces, core, full",
    "trace-seconds": "length of a raw trace (default 1)",
    "resume-from": "the tar of an earlier slice, of another node of the same kind",
}
PROBE = (
    "import importlib.metadata as m, json, site, sys\n"
    "found = [d.version for d in m.distributions(name='torch')]\n"
    "print(json.dumps([sys.version_info[:2], found[0] if found else None, site.getuserbase()]))\n"
)
_log: list[Path] = []  # where lines are kept, once OUT is known


def say(line: str, *, error: bool = False) -> None:
    """Print a line, and keep it."""
    with contextlib.suppress(OSError):  # a terminal that went away
        print(line, file=sys.stderr if error else sys.stdout, flush=True)
    for path in _log:
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")


def fail(line: str) -> NoReturn:
    """End with the one line of an error."""
    say(f"error: {line}", error=True)
    raise SystemExit(2)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the pack's manifest, or fail: the folder is no whole pack."""
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        sizes: dict[str, int] = manifest["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        fail(f"{folder}: no pack here (manifest.json: {error}); make one with `kv offline pack DIR`")
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            got = f"{path.stat().st_size} bytes" if path.is_file() else "nothing"
            fail(f"{path}: {size} bytes wanted, got {got}: the copy of the pack broke off, copy it again")
    return manifest


def check_platform(manifest: dict[str, Any]) -> None:
    """Fail on a node with another processor than the pack's wheels are for."""
    if platform.machine() != manifest["platform"]:
        fail(
            f"this node is {platform.machine()}, the pack is for {manifest['platform']}: "
            f"pack again with --platform {platform.machine()}"
        )


def matching(pattern: str) -> list[str]:
    """Return the paths that an absolute pattern matches, in order."""
    return sorted(str(path) for path in Path("/").glob(pattern.lstrip("/")))


def candidates(named: str | None) -> list[str]:
    """Return the Pythons to look for PyTorch in, the likeliest first; the one that was named alone."""
    if named is not None:
        return [os.path.abspath(named)]  # noqa: PTH100 - resolve() would leave a virtual environment through its link
    active = [os.environ[name] + "/bin/python3" for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(name)]
    on_path = [found for name in ("python3", "python") if (found := shutil.which(name))]
    paths = [*active, *on_path, *(path for pattern in PLACES for path in matching(pattern))]
    return list(dict.fromkeys(path for path in paths if not path.endswith("-config") and os.access(path, os.X_OK)))


def probe(python: str) -> tuple[tuple[int, int], str | None, str] | None:
    """Return (version, torch's version or None, the user's own site) of a Python; None where it does not run."""
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, check=True, timeout=60)
        version, torch, user_base = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return (version[0], version[1]), torch, user_base


def find_python(named: str | None, packed: list[str]) -> tuple[str, str]:
    """Return the Python to measure with and the folder of its user's own packages, or fail."""
    tried = []
    unfit = None
    for path in candidates(named):
        known = probe(path)
        if known is None:
            tried.append(f"{path} (does not run)")
            continue
        (major, minor), torch, user_base = known
        if torch is None:
            tried.append(f"{path} (no torch)")
            continue
        if f"{major}.{minor}" in packed:
            say(f"torch {torch} of {path} (Python {major}.{minor})")
            return path, user_base
        cure = "pack again with --pythons" if (major, minor) >= OLDEST else "that is too old for the suite"
        unfit = unfit or f"torch {torch} lies in {path}, Python {major}.{minor}; packed for {', '.join(packed)}: {cure}"
    if unfit is not None:
        fail(f"{unfit}, or name another Python with --python")
    fail(f"no PyTorch found; looked in {', '.join(tried) or 'nothing'}: name the Python that has it with --python")


def variables(work: Path, python: str) -> dict[str, str]:
    """Return the environment of everything that runs here: whole where the node's is bare."""
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    # On a shared disk files may belong to another user than the one that made them (root, squashed): git would refuse.
    (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n", encoding="utf-8")
    own = {
        "HOME": str(home),
        "USER": os.environ.get("USER") or "node",  # torch's compiler asks for it where the user id has no name
        "LANG": os.environ.get("LANG") or "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(work / "cache" / "inductor"),
        "TRITON_CACHE_DIR": str(work / "cache" / "triton"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "PIP_CONFIG_FILE": os.devnull,  # and no PIP_* below: an image's constraints are not about what is carried here
    }
    cuda = cuda_home()
    tools = [str(Path(python).parent), *([f"{cuda}/bin"] if cuda else [])]
    path = os.pathsep.join([*tools, os.environ.get("PATH", "")])
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ASV", "PIP_", "PYTHONHOME"))}
    return {**kept, **own, "PATH": path, **({"CUDA_HOME": cuda} if cuda else {})}


def cuda_home() -> str | None:
    """Return the CUDA toolkit's folder: the one that is named, or the usual ones; None where there is none."""
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    nvcc = shutil.which("nvcc")
    usual = [path for pattern in CUDA_HOMES for path in reversed(matching(pattern))]
    for folder in [*named, *([str(Path(nvcc).resolve().parents[1])] if nvcc else []), *usual]:
        if os.access(f"{folder}/bin/nvcc", os.X_OK):
            return folder
    return None


def command(args: list[str], environ: dict[str, str], cwd: Path) -> None:
    """Run a command, or fail with the last line that it printed."""
    done = subprocess.run(
        args, check=False, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        for line in done.stdout.splitlines():
            say(f"  {line}")
        last = [line for line in done.stdout.splitlines() if line.strip()] or ["it printed nothing"]
        fail(f"{' '.join(args[:4])} ...: status {done.returncode}: {last[-1].strip()}")


def check_out(repo: Path, manifest: dict[str, Any], environ: dict[str, str]) -> None:
    """Bring the bundle's newest commit into the clone; what is recorded there stays."""
    if shutil.which("git", path=environ["PATH"]) is None:
        fail("git is not installed on this node: asv needs it; install it, or take an image that has it")
    repo.mkdir(parents=True, exist_ok=True)
    steps = (
        ["git", "init", "-q", "."],
        ["git", "fetch", "-q", str(HERE / BUNDLE), "HEAD"],
        ["git", "checkout", "-q", "--detach", "--force", manifest["head"]],
    )
    if any(subprocess.call(step, cwd=repo, env=environ, stderr=subprocess.DEVNULL) != 0 for step in steps):
        shutil.rmtree(repo / ".git", ignore_errors=True)  # left over by a git that was killed; results are not in it
        for step in steps:
            command(step, environ, repo)


def arguments() -> tuple[argparse.Namespace, list[str]]:
    """Return what this script needs of the command line, and what it hands on."""
    parser = argparse.ArgumentParser(
        prog="sh run",
        description="Measure the packed commits on this node. Run it again to go on where it was cut off; exit status "
        "75 says that work is left.",
    )
    parser.add_argument("out", type=Path, help="where the tar, the summary and the log appear")
    parser.add_argument(
        "--work", type=Path, help="environment, builds, caches (default: OUT/work); a local disk is best"
    )
    parser.add_argument("--python", help="the Python that has PyTorch (default: looked for)")
    for name, text in HANDED_ON.items():
        parser.add_argument(f"--{name}", help=text)
    args = parser.parse_args()
    given = {name: getattr(args, name.replace("-", "_")) for name in HANDED_ON}
    if given["resume-from"] is not None:
        given["resume-from"] = str(Path(given["resume-from"]).absolute())
    return args, [f"--{name}={value}" for name, value in given.items() if value is not None]


def take_lock(work: Path) -> None:
    """Keep the work folder to this run, or fail; the file stays open, also in what this process becomes."""
    descriptor = os.open(work / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail(f"{work}: another run is at work here; wait for it, or name another folder with --work")
    except OSError as error:
        fail(f"{work}: files cannot be locked here ({error}): name a folder on a local disk with --work")
    os.set_inheritable(descriptor, True)


def prepare(args: argparse.Namespace, manifest: dict[str, Any], work: Path) -> tuple[Path, dict[str, str]]:
    """Set up the clone and the environment; return the environment's Python and the variables to run it with."""
    python, user_base = find_python(args.python, manifest["pythons"])
    environ = {**variables(work, python), "PYTHONUSERBASE": user_base}
    repo, venv = work / "repository", work / "venv"
    check_out(repo, manifest, environ)
    make = [python, "-P", str(repo / "tools" / "kernel_velocity" / "make_venv.py"), str(venv), "--torch", ""]
    command([*make, "--wheels", str(HERE / "wheels")], environ, repo)
    for name in ("PYTHONPATH", "PYTHONUSERBASE"):  # their packages are borrowed by now
        environ.pop(name, None)
    return venv / "bin" / "python", {**environ, "PATH": f"{venv / 'bin'}{os.pathsep}{environ['PATH']}"}


def main() -> None:
    """Set up, then become the run."""
    began = time.time()
    args, handed_on = arguments()
    out = args.out.absolute()
    work = (args.work or out / "work").absolute()
    try:
        for folder in (out, work):
            folder.mkdir(parents=True, exist_ok=True)
        _log.append(out / "node.log")
        say(f"== {' '.join(sys.argv)}")
        manifest = read_manifest(HERE)
        check_platform(manifest)
        if not (work / "venv").exists() and shutil.disk_usage(work).free < NEEDED:
            free = shutil.disk_usage(work).free
            fail(f"{work}: {free / 1e6:.0f} MB free, {NEEDED / 1e6:.0f} needed: name another folder with --work")
        take_lock(work)
        python, environ = prepare(args, manifest, work)
    except OSError as error:
        fail(str(error))
    repo = work / "repository"
    run = [
        str(python),
        "-m",
        "kernel_velocity",
        "offline",
        "time_slice",
        str(out),
        "--manifest",
        str(HERE / "manifest.json"),
    ]
    os.chdir(repo)
    os.execve(str(python), [*run, "--began", str(began), *handed_on], environ)


if __name__ == "__main__":
    main()
