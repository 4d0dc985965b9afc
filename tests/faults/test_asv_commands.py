"""asv's own commands work on our environment and our results, and every process measures the commit it is told."""

import pytest

from tests.faults.tiny import FASTER


def test_every_process_sees_the_commit_it_is_told(tiny):
    """Each commit says its own name. Each must be the one that asv set, in every round."""
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
def test_run_compare_show_continuous_and_publish_work(tiny):
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
    telemetry = tiny.results / "telemetry" / f"{new[:8]}-{tiny.environment}.jsonl"
    assert len(telemetry.read_text().splitlines()) == 2 * 9  # plain runs are joined too: two rounds of nine series


def test_missing_torch_is_one_line(tiny):
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
