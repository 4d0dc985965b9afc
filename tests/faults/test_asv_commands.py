"""asv's own commands work on our environment and our results."""

import pytest

from tests.faults.tiny import FASTER, GOOD, lines_with, plant


@pytest.mark.slow
def test_run_compare_show_continuous_and_publish_work(tiny):
    new = tiny.commit("Faster", kernel=FASTER)
    first = tiny.git("rev-parse", "HEAD~1")
    plain = tiny.asv("run", "-m", "box", "-a", "rounds=2", first + "^!")
    assert plain.returncode == 0 and lines_with(plain.stdout, "6 of 18 series: tier core on CPU")
    assert tiny.asv("run", "-m", "box", "--interleave-rounds", "-a", "rounds=2", "HEAD^!").returncode == 0
    ratio = tiny.asv("compare", "HEAD~1", "HEAD")
    assert ratio.returncode == 0 and "scale.Cpu.time_hot('native', 'float32-1k')" in ratio.stdout
    shown = tiny.asv("show", "HEAD")
    assert shown.returncode == 0 and "scale.Cpu.time_hot" in shown.stdout
    for done in (plain, ratio, shown):  # neither the GPU's series nor the case that is not in the tier
        assert not lines_with(done.stdout, "n/a") and not lines_with(done.stdout, "Cuda"), done.stdout
    both = tiny.asv("continuous", "-m", "box", "-a", "rounds=2", "HEAD~1", "HEAD")
    assert "NOT SIGNIFICANTLY CHANGED" in both.stdout, both.stdout
    published = tiny.asv("publish")
    assert published.returncode == 0, published.stdout
    html = tiny.root / ".asv" / "html"
    for name in ("index.html", "error.html"):
        assert 'href="kernel-velocity/index.html"' in (html / name).read_text()
    for path in html.glob("kernel-velocity/*.html"):  # asv's own pages are blank without a network
        assert "../" not in path.read_text(), path
    assert "Faster" in (tiny.root / ".asv/html/kernel-velocity/index.html").read_text()
    telemetry = tiny.results / "telemetry" / f"{new[:8]}-{tiny.environment}.jsonl"
    assert len(telemetry.read_text().splitlines()) == 2 * 6  # plain runs are joined too: two rounds of six series


def test_same_python_records_nothing(tiny):
    assert tiny.asv("run", "-m", "box", "--bench", "just-discover").returncode == 0
    listed = tiny.root / "results" / "benchmarks.json"
    before = listed.read_bytes()
    (tiny.root / "kernels" / "__init__.py").write_text(f"{GOOD}SLOWER = 2\n")  # not committed: its build is in place
    plant(tiny.host, "kernels", "1.0", "def scale(x): return 3\n")  # a package of that name that the host has
    options = ["run", "-m", "box", "--python=same", "--quick", "--show-stderr"]
    done = tiny.asv(*options)
    assert done.returncode == 0, done.stdout
    times = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if "±" in line}
    assert times == {"eager": ["1.00±0μs"] * 2, "compile": ["1.00±0μs"] * 2, "native": ["2.00±0μs"] * 2}
    assert listed.read_bytes() == before
    assert [path.name for path in tiny.results.iterdir()] == ["machine.json"]
    refused = tiny.asv(*options, "--set-commit-hash", "HEAD")
    assert refused.returncode == 1 and lines_with(refused.stdout, "--python=same measures the working tree")
