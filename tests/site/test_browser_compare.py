"""compare.html in a real browser: its arithmetic against Python's, its form against the URL, bad data."""

import json
import math
import random
import shutil
import urllib.parse

import numpy as np
import pytest

from kernel_velocity.site import report, series_data
from kernel_velocity.stats.changepoints.search import Noise
from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.verdict import verdicts
from kernel_velocity.verdict.ranges import CommitRange
from kernel_velocity.verdict.verdicts import Levels
from tests import synthetic
from tests.site.pages import HOSTILE

pytestmark = pytest.mark.slow

SHAS = tuple(f"{number}a{number}b{'0' * 36}" for number in range(1, 5))
PLATFORMS = (("bench-1", "py3.11-torch2.13"), ('<img src=x onerror="window.pwned=1">', '=1+1,"x" \u202e'))
BENCHMARKS = ("matmul.Cpu.time_hot", "add_mul_exp.Cpu.time_hot")
SCALE = {"native": 1e-3, "eager": 2e-3, "<b>x</b>": 3e-3}  # s per call at the first commit
FACTOR = (1.0, 1.1, 0.9, 0.9)  # of the times of `native`, by commit
ALONE = CommitRange(good=SHAS[0], bad=SHAS[1], commits=SHAS[1:2])
WITHIN = [0.05, 0.04, 0.03, 0.02, 0.01]  # by the values on the shorter side
STEPS = {
    "steps": [[1, 1.1, 1.09, 1.11, True], [2, 0.9 / 1.1, 0.81, 0.825, True]],
    "within": [WITHIN] * 3,
}


def times(implementation, number, platform):
    factor = FACTOR[number] if implementation == "native" else 1.0
    return SCALE[implementation] * factor * (1 + platform)


def columns(implementation, platform, *, width=0.01, **changed):
    """Return the file of a series. Intervals are `width` of a time on either side."""
    seconds = [times(implementation, number, platform) for number in range(len(SHAS))]
    return {
        "format": 1,
        "version": "1",
        "flop": 4e6,
        "operation": "FLOP",
        "bytes": None,
        "commit": list(SHAS),
        "outcome": ["measured"] * len(SHAS),
        "seconds": seconds,
        "low": [value * (1 - width) for value in seconds],
        "high": [value * (1 + width) for value in seconds],
        **dict.fromkeys(("adjusted", "adjusted_low", "adjusted_high"), [None] * len(SHAS)),
        "rounds": [8] * len(SHAS),
        "method": ["m"] * len(SHAS),
        "remarks": {},
        "levels": STEPS if implementation == "native" else {"within": [WITHIN]},
    } | changed


def planted():
    """Return the data files: series of three implementations, two kernels and two platforms, and their oddities."""
    series, files = [], {}
    for number, benchmark, implementation in (
        (number, benchmark, implementation)
        for number in range(2)
        for benchmark in BENCHMARKS
        for implementation in SCALE
    ):
        name = f"series-{len(series):016x}"
        kernel, device, state = benchmark.split(".")
        entry = {"name": name, "place": number, "benchmark": benchmark, "kernel": kernel, "device": device}
        named = {"state": state[5:], "implementation": implementation, "case": "float32-1M", "version": "1"}
        series.append(entry | named | {"flop": 4e6, "operation": "FLOP", "bytes": None})
        files[name] = columns(implementation, number)
    files["series-0000000000000001"]["outcome"][3] = "failed"  # matmul eager at the newest
    files["series-0000000000000001"]["seconds"][3] = None
    files["series-0000000000000001"]["remarks"]["3"] = [HOSTILE[0]]
    files["series-0000000000000002"]["method"][2] = "other"
    subjects = [HOSTILE[0].partition("\n")[0], "Vectorise", "Vectorise more", HOSTILE[2]]
    commits = [
        {"sha": sha, "subject": subject, "author": "Ada <b>", "date": "2026-03-01T12:00:00+00:00"}
        | {"tags": ["v1.0"] if sha == SHAS[1] else [], "places": [0, 1], "page": f"commit-{sha[:8]}.html"}
        for sha, subject in zip(SHAS, subjects, strict=True)
    ]
    platforms = [{"machine": machine, "environment": environment, "anchor": "p"} for machine, environment in PLATFORMS]
    files["commits"] = {"format": 1, "branch": "HEAD", "commits": commits}
    files["series-index"] = {"format": 1, "places": platforms, "series": series}
    return files


PER = 1e15  # in whole numbers of which times are written


def encoded(columns, first, stop):
    """Return some entries of a series as site/series_data.py writes them."""

    def apart(name, others, sign):
        values = columns[name][first:stop]
        pairs = zip(values, columns[others][first:stop] if others else [0] * len(values), strict=True)
        return [None if value is None else round(sign * (value - (other or 0)) * PER) for value, other in pairs]

    middles = {"seconds": (None, 1), "low": ("seconds", -1), "high": ("seconds", 1), "adjusted": ("seconds", 1)}
    middles |= {"adjusted_low": ("adjusted", -1), "adjusted_high": ("adjusted", 1)}
    numbers = [SHAS.index(sha) for sha in columns["commit"][first:stop]]
    remarks = [[columns["remarks"].get(str(entry)), 1] for entry in range(first, first + len(numbers))]
    runs = {name: [[value, 1] for value in columns[name][first:stop]] for name in ("outcome", "rounds", "method")}
    times = {name: apart(name, *middle) for name, middle in middles.items()}
    last = [numbers[-1], SHAS[numbers[-1]][:8]] if numbers else None
    commit = [[number, 1] for number in numbers]
    return {"last": last, "commit": commit, "remarks": remarks, "per": PER, **runs, **times}


def split(files):
    """Return the files as site/series_data.py writes them: the newest entry of each series is in another file."""
    edge, parts = len(SHAS) - 1, dict(files)
    newest = {"format": 3, "before": edge, "series": {}, "levels": {}}
    for name in [name for name in files if name.startswith("series-0")]:
        about = {key: value for key, value in files[name].items() if not isinstance(value, list)}
        parts[name] = {**about, **encoded(files[name], 0, edge), "before": edge, "newest": "newest-0"}
        newest["series"][name] = encoded(files[name], edge, len(SHAS))
        newest["levels"][name] = files[name]["levels"]
    return parts | {"newest-0": newest}


def write(out, files):
    (out / "data").mkdir(exist_ok=True)
    for name, value in split(files).items():
        script = f"KV.put({json.dumps(name)},{json.dumps(value)});\n"
        (out / "data" / f"{name}.js").write_text(script, encoding="utf-8")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A site whose data are the planted ones."""
    tree = synthetic.build(tmp_path_factory.mktemp("compare"))
    folder = tree.repository.parent / "site"
    report.write_site(results=tree.results, repository=tree.repository, out=folder)
    write(folder, planted())
    return folder


def show(tab, out, hash_=""):
    tab.goto("about:blank")
    tab.goto((out / "compare.html").as_uri() + hash_)
    tab.wait_for_selector("body[data-ready=yes]")


def rows(tab):
    """Return kernel, implementation and ratio of each row."""
    script = """() => [...document.querySelectorAll("#rows tbody tr")].map((row) => [
      row.querySelector("a bdi").textContent, row.querySelector(".names bdi").textContent,
      row.querySelector("td:nth-of-type(1) .change")?.textContent ?? ""])"""
    return [tuple(row) for row in tab.evaluate(script)]


def summary(tab):
    return tab.locator("#summary").inner_text()


def chosen(tab):
    return tab.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def random_side(rng, *, bare=False, adjusted=False):
    seconds = 10 ** rng.uniform(-8, 1)
    low, high = seconds * math.exp(-rng.uniform(0, 0.05)), seconds * math.exp(rng.uniform(0, 0.05))
    fair = seconds * math.exp(rng.gauss(0, 0.02))
    of_fair = (fair, fair * 0.995, fair * 1.004) if adjusted else (None, None, None)
    names = ("seconds", "low", "high", "adjusted", "adjusted_low", "adjusted_high")
    values = (seconds, *((None, None) if bare else (low, high)), *of_fair)
    return dict(zip(names, values, strict=True)) | {"method": "m", "version": "1", "flop": 1e9, "operation": "FLOP"}


def expected(a, b):
    """Return the ratio of times and its interval by the definitions: MOVER, written out on times."""
    adjusted = a["adjusted"] is not None and b["adjusted"] is not None
    names = ("adjusted", "adjusted_low", "adjusted_high") if adjusted else ("seconds", "low", "high")
    (ta, la, ha), (tb, lb, hb) = ([side[name] for name in names] for side in (a, b))
    if la is None or lb is None:
        return tb / ta, None, None
    middle = math.log(tb) - math.log(ta)
    low = middle - math.sqrt((math.log(ha) - math.log(ta)) ** 2 + (math.log(tb) - math.log(lb)) ** 2)
    high = middle + math.sqrt((math.log(ta) - math.log(la)) ** 2 + (math.log(hb) - math.log(tb)) ** 2)
    return tb / ta, math.exp(low), math.exp(high)


def test_ratios_of_two_series(tab, out):
    show(tab, out)
    rng = random.Random(7)
    pairs = [(random_side(rng), random_side(rng)) for _ in range(20)]
    pairs += [(random_side(rng, bare=True), random_side(rng)) for _ in range(5)]
    pairs += [(random_side(rng, adjusted=True), random_side(rng, adjusted=True)) for _ in range(20)]
    script = "(pairs) => pairs.map(([a, b]) => Ratios.compare(a, b, true))"
    for (a, b), shown in zip(pairs, tab.evaluate(script, pairs), strict=True):
        assert [shown[name] for name in ("ratio", "low", "high")] == [
            end if end is None else pytest.approx(end, rel=1e-12) for end in expected(a, b)
        ]
        assert shown["adjusted"] == (a["adjusted"] is not None)


def test_false_discoveries_among_two_series_are_controlled(tab, out):
    show(tab, out)
    rng = random.Random(3)
    half = 0.01

    def side(effect):
        ratio = math.exp(effect + rng.gauss(0, half / 1.96))
        ends = {"low": ratio * math.exp(-half), "high": ratio * math.exp(half)}
        return {"change": {"ratio": ratio, **ends, "word": "undecided"}, "better": "lower"}

    script = "(rows) => { Ratios.decide(rows); return rows.map(({ change }) => change.word); }"
    quiet = tab.evaluate(script, [side(0.0) for _ in range(2000)])
    assert set(quiet) == {"undecided"}  # of 95% intervals, 100 exclude 1
    moved = tab.evaluate(script, [side(0.05) for _ in range(50)] + [side(-0.05) for _ in range(50)])
    assert moved == ["slower"] * 50 + ["faster"] * 50


def test_verdicts_are_pythons(tab, out):
    """Of all pairs of entries of random series, in both directions."""
    show(tab, out)
    rng, words = random.Random(11), set()
    for number in range(30):
        size = rng.randrange(12, 60)
        indices = sorted(rng.sample(range(1, size), 4))
        heights = [0.0]
        for _ in indices:
            heights.append(heights[-1] + rng.choice([-0.1, -0.2, 0.004, 0.1, 0.2]))
        if number % 3 == 0:
            heights[rng.randrange(5)] = -math.inf  # a level of 0
        values = [math.exp(heights[sum(index <= entry for index in indices)]) for entry in range(size)]
        points = []
        for index, before, after in zip(indices, heights, heights[1:], strict=False):
            effect, half = after - before, rng.choice([0.01, 0.1])
            low, high = (math.exp(effect + side) if math.isfinite(effect) else 1.0 for side in (-half, half))
            unsteady = rng.random() < 0.2
            points.append(
                ChangePoint(index=index, before=before, after=after, low=low, high=high, p=0.0, is_unsteady=unsteady)
            )
        noises = Noise(sigma=0.002, freedom=20.0), None, Noise(sigma=0.03, freedom=9.0), Noise(sigma=0.9, freedom=5.0)
        levels = Levels(
            points=tuple(points), values=np.array(values), doubt=rng.choice([None, points[0]]), ranges=(ALONE,) * 4,
            within=tuple(verdicts.least_steps(rng.choice(noises), 20, 1e-4) for _ in heights),
            visits={rng.randrange(size): 0.08},
        )  # fmt: skip
        pairs = [(old, new) for old in range(0, size, 3) for new in range(old + 1, size, 2)]
        script = """([levels, seconds, pairs]) => pairs.map(([a, b]) =>
          [Verdicts.between(levels, seconds, a, b), Verdicts.between(levels, seconds, b, a)])"""
        both = tab.evaluate(script, [series_data.levels_of(levels), values, pairs])
        for (old, new), (there, back) in zip(pairs, both, strict=True):
            verdict = levels.between(old, new)
            words.add((verdict.word, verdict.ends is None))
            assert there["word"] == verdict.word
            assert there["ends"] == (None if verdict.ends is None else pytest.approx(list(verdict.ends), rel=1e-4))
            if verdict.ends is None:
                assert there["ratio"] == pytest.approx(verdict.ratio, rel=1e-3)
                assert back["ratio"] == pytest.approx(1 / verdict.ratio, rel=1e-3)
            for name in ("low", "high", "within"):
                wanted = getattr(verdict, name)
                assert there[name] == (
                    None if math.isnan(wanted) else pytest.approx(wanted, rel=0.01, abs=1e-3)
                )  # of rounded ratios
    assert len(words) == 6  # slower and faster with and without a ratio, unchanged, undecided


def test_default_is_newest_against_before(tab, out):
    show(tab, out)
    state = chosen(tab)
    assert (state["a"], state["b"], state["am"]) == (SHAS[2][:12], SHAS[3][:12], "bench-1")
    assert summary(tab).startswith("B is as fast as A in the geometric mean of 4 test cases: 4 unchanged")
    assert ("matmul", "eager", "") in rows(tab) and ("matmul", "<b>x</b>", "not comparable") in rows(tab)
    texts = tab.locator("#rows .detail, #notes li").all_inner_texts()
    assert "timed by another method" in texts and any("<script>" in text for text in texts)


def test_link_has_every_choice(tab, out):
    sides = f"#a={SHAS[0][:8]}&b=v1.0&am=bench-1&ae={PLATFORMS[0][1]}&ai=native"
    show(tab, out, f"{sides}&kernel=matmul+Cpu&text=1M")
    assert rows(tab) == [("matmul", "native", "10.0% slower")]
    values = tab.locator("#rows tbody td.value .text").all_inner_texts()
    assert values == ["4.00 GFLOPS", "3.64 GFLOPS"]
    assert tab.locator("#rows td:nth-of-type(2) .detail").inner_text() == "3.96 to 4.04 GFLOPS · 1.00 ms"
    assert tab.locator("#rows tbody td:nth-of-type(1) .detail").inner_text() == "±1.0%"
    state = chosen(tab)
    assert {name: state[name] for name in ("b", "ai", "kernel", "text")} == {
        **{"b": SHAS[1][:12], "ai": "native", "kernel": "matmul Cpu", "text": "1M"}
    }
    before = rows(tab)
    show(tab, out, tab.evaluate("location.hash"))
    assert rows(tab) == before
    assert tab.locator("#summary").get_attribute("class") == "verdict slower"
    trend = tab.locator("#rows tbody th a").get_attribute("href")
    assert trend.startswith("kernel-matmul-Cpu.html#state=hot&machine=bench-1&")
    assert trend.endswith(f"&case=float32-1M&commit={SHAS[1][:8]}")
    for words, count in (("faster", 0), ("1M slower", 1)):  # a verdict is found, too
        tab.fill("input[name=text]", words)
        assert len(rows(tab)) == count


def test_machines_and_implementations(tab, out):
    show(tab, out, f"#a={SHAS[0][:8]}&b={SHAS[1][:8]}")
    tab.select_option("[name=bp]", "1")  # of the same commit then
    tab.wait_for_selector("body[data-ready=yes]")
    assert chosen(tab)["a"] == chosen(tab)["b"] == SHAS[1][:12] and chosen(tab)["bm"] == PLATFORMS[1][0]
    assert {ratio for _, _, ratio in rows(tab)} == {"0.500× as fast"}
    tab.select_option("[name=bp]", "")
    tab.wait_for_selector("body[data-ready=yes]")
    assert (chosen(tab)["a"], chosen(tab).get("bm")) == (SHAS[0][:12], None)
    show(tab, out, f"#a={SHAS[0][:8]}&ai=eager&bi=native")
    assert rows(tab) == [
        ("add_mul_exp", "eager → native", "2.00× as fast"),
        ("matmul", "eager → native", "2.00× as fast"),
    ]
    tab.select_option("[name=ai]", "")  # each
    tab.wait_for_selector("body[data-ready=yes]")
    assert {name for _, name, _ in rows(tab)} == {"eager → native", "<b>x</b> → native"}  # nothing against itself


def test_keyboard_chooses(tab, out):
    show(tab, out, f"#a={SHAS[0][:8]}&b={SHAS[1][:8]}&ai=native&kernel=matmul+Cpu")
    assert rows(tab) == [("matmul", "native", "10.0% slower")]
    tab.focus("[name=b]")
    tab.keyboard.press("ArrowUp")  # newest first
    tab.wait_for_selector("body[data-ready=yes]")
    assert chosen(tab)["b"] == SHAS[2][:12]
    tab.keyboard.type(SHAS[1][:5])
    tab.wait_for_selector("body[data-ready=yes]")
    assert chosen(tab)["b"] == SHAS[1][:12]
    tab.fill("[name=text]", "eager")
    assert rows(tab) == [] and tab.locator("#none").is_visible()


def test_address_in_vain(tab, out):
    show(tab, out, "#a=ffffffff&bi=nobody&am=mars&kernel=none&bm=mars&ae=old")
    gone = {
        **{"kernel": "none", "commit": "ffffffff"},
        **{"machine": "mars", "environment": "old", "implementation": "nobody"},
    }
    (line,) = tab.locator("#problems li").all_inner_texts()
    named = ", ".join(f"{what} “\u2068{name}\u2069”" for what, name in gone.items())
    assert line == f"Not here, so something else is shown: {named}."
    assert len(rows(tab)) == 6
    tab.select_option("select[name=kernel]", "matmul Cpu")
    assert tab.locator("#problems").is_hidden()


def test_address_of_a_lost_environment(tab, out):
    show(tab, out, f"#bm={urllib.parse.quote(PLATFORMS[1][0])}&be=old")
    assert tab.locator("#problems li").all_inner_texts() == [
        "Not here, so something else is shown: environment “\u2068old\u2069”."
    ]
    assert tab.input_value("select[name=bp]") == "1"


def test_hostile_text_is_not_executed(tab, out):
    show(tab, out, f"#a={SHAS[0][:8]}&b={SHAS[3][:8]}&bm={PLATFORMS[1][0]}")
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("main img, main b, main script").count() == 0
    assert HOSTILE[2] in tab.locator("[data-side=b] .chosen").inner_text()


# Gives up the rest as soon as the first series are there: a test would come too late
CHOOSES_MEANWHILE = """addEventListener("DOMContentLoaded", () => {
  const progress = document.getElementById("progress");
  new MutationObserver((_, observer) => {
    if (!/of 400 series loaded/.test(progress.textContent)) return;
    observer.disconnect();
    const field = document.querySelector("[name=kernel]");
    field.value = "kernel_3 Cpu";
    field.dispatchEvent(new Event("change", {bubbles: true}));
    window.hasChosen = true;
  }).observe(progress, {childList: true});
})"""


def test_many_series_are_loaded_meanwhile(tab, out, tmp_path):
    """A line tells how far it is. What is chosen meanwhile is taken up, and nothing is loaded for what it replaced."""
    copy = tmp_path / "site"
    shutil.copytree(out, copy)
    files = planted()
    files["series-index"]["series"] = []
    for number in range(400):
        name = f"series-{number:016x}"
        kernel = f"kernel_{number % 20}"
        named = {"name": name, "place": 0, "benchmark": f"{kernel}.Cpu.time_hot", "kernel": kernel, "device": "Cpu"}
        rest = {"state": "hot", "implementation": "native", "case": f"float32-{number}k", "version": "1"}
        files["series-index"]["series"].append(named | rest | {"flop": 4e6, "operation": "FLOP", "bytes": None})
        files[name] = columns("native", 0)
    write(copy, files)
    tab.add_init_script(CHOOSES_MEANWHILE)
    tab.goto((copy / "compare.html").as_uri(), wait_until="commit")  # series delay the load event
    tab.wait_for_function("window.hasChosen && document.body.dataset.ready === 'yes'")
    assert len(rows(tab)) == 20 and tab.evaluate("performance.getEntriesByType('resource').length") < 400
    tab.select_option("[name=kernel]", "")
    tab.wait_for_selector("body[data-ready=yes]")
    assert len(rows(tab)) == 300
    assert (
        tab.locator("#more").inner_text()
        == "The 300 largest of 400 effects. Choose a kernel or type a name to see others."
    )
    assert tab.evaluate("document.querySelectorAll('script[src*=series-0]').length") == 0


# ---- machines that measured different commits, adjusted values --------------------------------------------------


@pytest.fixture
def changed(out, tmp_path):
    """Return a function that writes a site of other data."""

    def made(files):
        copy = tmp_path / "site"
        shutil.copytree(out, copy)
        write(copy, files)
        return copy

    return made


def staggered():
    """Return data of a first machine that measured the two oldest commits and a second one that measured the others."""
    files = planted()
    for number, commit in enumerate(files["commits"]["commits"]):
        commit["places"] = [0 if number < 2 else 1]
    for entry in files["series-index"]["series"]:
        part = slice(0, 2) if entry["place"] == 0 else slice(2, 4)
        file = columns(entry["implementation"], entry["place"])
        lists = {name: value[part] for name, value in file.items() if isinstance(value, list)}
        files[entry["name"]] = {**file, **lists}
    return files


def test_default_commits_of_one_machine(tab, changed):
    copy = changed(staggered())
    show(tab, copy)
    state = chosen(tab)
    assert (state["a"], state["b"]) == (SHAS[2][:12], SHAS[3][:12])
    assert "in the geometric mean of 6 test cases" in summary(tab)
    older = tab.locator("[name=a] option:disabled")
    assert older.evaluate_all("(all) => all.map(({ value }) => value)") == [SHAS[1], SHAS[0]]
    show(tab, copy, "#am=bench-1")
    state = chosen(tab)
    assert (state["a"], state["b"]) == (SHAS[0][:12], SHAS[1][:12])
    assert tab.locator("#problems").is_hidden()
    show(tab, copy, f"#am=bench-1&a={SHAS[0][:8]}&b={SHAS[3][:8]}")
    assert summary(tab).startswith("No test case can be compared")


def test_adjusted_values_are_compared(tab, changed):
    """Raw times say that native is faster than eager. Adjusted ones, which are compared, that it is slower."""
    files = planted()
    for implementation, raw, fair in (("eager", 1e-3, 1e-3), ("native", 0.9e-3, 1.25e-3)):
        entries = files["series-index"]["series"]
        name = next(entry["name"] for entry in entries if entry["implementation"] == implementation)
        ends = {
            f"{prefix}{end}": [value * factor] * 4
            for prefix, value in (("", raw), ("adjusted_", fair))
            for end, factor in (("low", 0.99), ("high", 1.01))
        }
        files[name] = columns(implementation, 0, seconds=[raw] * 4, adjusted=[fair] * 4, **ends)
    copy = changed(files)
    show(tab, copy, f"#a={SHAS[0][:8]}&ai=eager&bi=native&kernel=matmul+Cpu")
    assert rows(tab) == [("matmul", "eager → native", "0.800× as fast")]
    cells = [cell.split("\n") for cell in tab.locator("#rows tbody td").all_inner_texts()[1:]]
    assert cells[0] == ["4.00 GFLOPS", "3.96 to 4.04 GFLOPS · 1.00 ms", "adjusted: 1.00 ms"]
    assert cells[1] == ["4.44 GFLOPS", "4.40 to 4.49 GFLOPS · 900 µs", "adjusted: 1.25 ms"]


def test_choices_are_steps_back(tab, out):
    show(tab, out)
    tab.select_option("[name=kernel]", "matmul Cpu")
    tab.select_option("[name=ai]", "native")
    tab.go_back()
    tab.wait_for_function("document.querySelector('[name=ai]').value === ''")
    assert chosen(tab)["kernel"] == "matmul Cpu"
    tab.go_back()
    tab.wait_for_function("document.querySelector('[name=kernel]').value === ''")
    assert tab.url.startswith((out / "compare.html").as_uri())
