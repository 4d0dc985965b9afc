"""asv's own commands work on our environment and our results, and installing a commit is a matter of milliseconds."""

import json

import pytest

from tests.faults.tiny import FASTER


def timed_switches(tiny):
    """Return the seconds that each of ten installations took, commits built before, in a process of its own."""
    script = (
        "import json, sys, time\n"
        "sys.path.insert(0, '.')\n"
        "from asv.config import Config\n"
        "from asv.repo import get_repo\n"
        "from asv.environment import get_environments\n"
        "import kernel_velocity.asv_plugin\n"
        "conf = Config.load()\n"
        "repo = get_repo(conf)\n"
        "(environment,) = get_environments(conf, None)\n"
        "environment.create()\n"
        "seconds = []\n"
        "for commit in [*sys.argv[1:], *sys.argv[1:] * 5]:\n"
        "    began = time.perf_counter()\n"
        "    environment.install_project(conf, repo, commit)\n"
        "    seconds.append(time.perf_counter() - began)\n"
        "    assert environment.installed_commit_hash == commit\n"
        "print(json.dumps(seconds))\n"
    )
    (tiny.root / "switch.py").write_text(script)
    commits = tiny.git("rev-list", "HEAD").split()
    done = tiny.run("switch", *commits)
    return json.loads(done.stdout.splitlines()[-1])[len(commits) :]


def test_switching_the_installed_commit_takes_far_less_than_a_second(tiny):
    tiny.commit("Faster", kernel=FASTER)
    seconds = timed_switches(tiny)
    assert len(seconds) == 10
    assert sorted(seconds)[5] < 0.05, seconds


def test_every_process_sees_the_commit_it_is_told(tiny):
    """Each commit says its own name; each must be the one that asv set, in every round."""
    for name in ("one", "two"):
        tiny.commit(name, kernel=f"NAME = {name!r}\ndef scale(x):\n    return 2 * x\n")
    suite = (tiny.root / "benchmarks" / "scale.py").read_text()
    noting = suite.replace(
        "        began = time.time()\n",
        "        began = time.time()\n        import kernels\n"
        "        with open(Path(os.environ['ASV_CONF_DIR'], 'seen'), 'a') as seen:\n"
        "            seen.write(f\"{kernels.NAME} {os.environ['ASV_COMMIT']} {os.environ['OMP_NUM_THREADS']}\\n\")\n",
    )
    (tiny.root / "benchmarks" / "scale.py").write_text(noting)
    done = tiny.track(KV_RANGE="HEAD~2..HEAD", KV_ROUNDS="3", KV_BENCH="native.*1k", KV_THREADS="2")
    assert done.returncode == 0, done.stdout
    two, one = tiny.git("rev-list", "-2", "HEAD").split()
    seen = (tiny.root / "seen").read_text().splitlines()
    assert sorted(seen) == sorted([f"one {one} 2", f"two {two} 2"] * 3)


@pytest.mark.slow
def test_run_compare_show_continuous_and_publish(tiny):
    new = tiny.commit("Faster", kernel=FASTER)
    first = tiny.git("rev-parse", "HEAD~1")
    assert tiny.asv("run", "-m", "box", "-a", "rounds=2", first + "^!").returncode == 0
    assert tiny.asv("run", "-m", "box", "--interleave-rounds", "-a", "rounds=2", "HEAD^!").returncode == 0
    ratio = tiny.asv("compare", "HEAD~1", "HEAD")
    assert ratio.returncode == 0 and "scale.Cpu.time_hot('native', 'float32-1k')" in ratio.stdout
    shown = tiny.asv("show", "HEAD")
    assert shown.returncode == 0 and "scale.Cpu.time_hot" in shown.stdout
    both = tiny.asv("continuous", "-m", "box", "-a", "rounds=2", "HEAD~1", "HEAD")
    assert "NOT SIGNIFICANTLY CHANGED" in both.stdout, both.stdout
    published = tiny.asv("publish")
    assert published.returncode == 0, published.stdout
    assert 'href="kernel-velocity/index.html"' in (tiny.root / ".asv/html/index.html").read_text()
    assert "Faster" in (tiny.root / ".asv/html/kernel-velocity/index.html").read_text()
    kept = tiny.results / "telemetry" / f"{new[:8]}-{tiny.environment}.jsonl"
    assert len(kept.read_text().splitlines()) == 2 * 9  # plain runs are joined too: two rounds of nine series


@pytest.mark.slow
def test_two_versions_of_torch_never_share_a_series(tiny):
    assert tiny.track().returncode == 0
    info = next(tiny.host.glob("torch-*.dist-info"))
    info.rename(info.with_name("torch-10.0.0.dist-info"))
    metadata = tiny.host / "torch-10.0.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("9.9.0", "10.0.0"))
    assert tiny.track().returncode == 0
    files = sorted(path.name.split("-", 1)[1] for path in tiny.results.glob("*-host-*.json"))
    assert files == [f"host-py{tiny.python}-torch10.0.0.json", f"host-py{tiny.python}-torch9.9.0.json"]
    requirements = [json.loads(path.read_text())["requirements"] for path in tiny.results.glob("*-host-*.json")]
    assert sorted(item["torch"] for item in requirements) == ["10.0.0", "9.9.0"]


def test_without_torch_one_line_says_how_to_get_it(tiny):
    (tiny.root.parent / "bare").mkdir()
    hidden = tiny.root.parent / "bare" / "sitecustomize.py"
    hidden.write_text(
        "import importlib.metadata as m\n"
        "real = m.version\n"
        "def version(name):\n"
        "    if name == 'torch':\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
    )
    path = f"{hidden.parent}:{tiny.host}"
    done = tiny.track(PYTHONPATH=path)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("error: torch is not installed") and "make venv" in done.stdout
    plain = tiny.asv("run", "-m", "box", "HEAD^!", PYTHONPATH=path)
    assert plain.returncode != 0 and "torch is not installed for" in plain.stdout


@pytest.mark.slow
def test_environment_survives_a_missing_interpreter_and_keeps_its_builds(tiny):
    assert tiny.track().returncode == 0
    (environment,) = (tiny.root / ".asv" / "env").iterdir()
    (environment / "bin" / "python").unlink()
    done = tiny.track(KV_AGAIN="1")
    assert done.returncode == 0, done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith("built ")]
