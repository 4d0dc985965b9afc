"""compare.html in a real browser: its arithmetic against Python's, its form against the URL, bad data."""

import csv
import io
import json
import math
import random
import shutil
import urllib.parse

import pytest

from kernel_velocity.results.measurement import Interval, Measurement, Outcome, SeriesKey
from kernel_velocity.series import changes
from kernel_velocity.site import report
from tests import synthetic
from tests.site.pages import HOSTILE

pytestmark = pytest.mark.slow

SHAS = tuple(f"{number}a{number}b{'0' * 36}" for number in range(1, 5))
PLACES = (("bench-1", "py3.11-torch2.13"), ('<img src=x onerror="window.pwned=1">', '=1+1,"x" \u202e'))
BENCHMARKS = ("matmul.Cpu.time_hot", "add_mul_exp.Cpu.time_hot")
SCALE = {"native": 1e-3, "eager": 2e-3, "<b>x</b>": 3e-3}  # s per call at the first commit
FACTOR = (1.0, 1.1, 0.9, 0.9)  # of the times of `native`, by commit


def times(implementation, number, place):
    factor = FACTOR[number] if implementation == "native" else 1.0
    return SCALE[implementation] * factor * (1 + place)


def columns(implementation, place, *, width=0.01, **changed):
    """Return the file of a series. Intervals are `width` of a time on either side."""
    seconds = [times(implementation, number, place) for number in range(len(SHAS))]
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
    } | changed


def planted():
    """Return the data files: series of three implementations, two kernels and two places, and their oddities."""
    series, files = [], {}
    for place, benchmark, implementation in (
        (place, benchmark, implementation) for place in range(2) for benchmark in BENCHMARKS for implementation in SCALE
    ):
        name = f"series-{len(series):016x}"
        kernel, device, state = benchmark.split(".")
        entry = {"name": name, "place": place, "benchmark": benchmark, "kernel": kernel, "device": device}
        named = {"state": state[5:], "implementation": implementation, "case": "float32-1M", "version": "1"}
        series.append(entry | named | {"flop": 4e6, "operation": "FLOP", "bytes": None})
        files[name] = columns(implementation, place)
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
    places = [{"machine": machine, "environment": environment, "anchor": "p"} for machine, environment in PLACES]
    files["commits"] = {"format": 1, "branch": "HEAD", "commits": commits}
    files["series-index"] = {"format": 1, "places": places, "series": series}
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
    edge, found = len(SHAS) - 1, dict(files)
    newest = {"format": 3, "before": edge, "series": {}}
    for name in [name for name in files if name.startswith("series-0")]:
        about = {key: value for key, value in files[name].items() if not isinstance(value, list)}
        found[name] = {**about, **encoded(files[name], 0, edge), "before": edge, "newest": "newest-0"}
        newest["series"][name] = encoded(files[name], edge, len(SHAS))
    return found | {"newest-0": newest}


def write(out, files):
    (out / "data").mkdir(exist_ok=True)
    for name, value in split(files).items():
        script = f"KV.put({json.dumps(name)},{json.dumps(value)});\n"
        (out / "data" / f"{name}.js").write_text(script, encoding="utf-8")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A site whose data are the planted ones."""
    tree = synthetic.build(tmp_path_factory.mktemp("compare"))
    found = tree.repository.parent / "site"
    report.write_site(results=tree.results, repository=tree.repository, out=found)
    write(found, planted())
    return found


def show(tab, out, hash_=""):
    tab.goto("about:blank")
    tab.goto((out / "compare.html").as_uri() + hash_)
    tab.wait_for_selector("body[data-ready=yes]")


def rows(tab):
    """Return kernel, implementation and ratio of each row."""
    script = """() => [...document.querySelectorAll("#rows tbody tr")].map((row) => [
      row.querySelector("a").textContent, row.querySelector("td bdi").textContent,
      row.querySelector("td:nth-of-type(2) .change")?.textContent ?? ""])"""
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
    known = (seconds, *((None, None) if bare else (low, high)), *of_fair)
    return dict(zip(names, known, strict=True)) | {"method": "m", "version": "1", "flop": 1e9, "operation": "FLOP"}


def expected(a, b):
    """Return ratio, interval and confirmation by the definitions: MOVER, written out on times."""
    adjusted = a["adjusted"] is not None and b["adjusted"] is not None
    names = ("adjusted", "adjusted_low", "adjusted_high") if adjusted else ("seconds", "low", "high")
    (ta, la, ha), (tb, lb, hb) = ([side[name] for name in names] for side in (a, b))
    if la is None or lb is None:
        return ta / tb, None, None, False
    middle = math.log(ta) - math.log(tb)
    low = middle - math.sqrt((math.log(ta) - math.log(la)) ** 2 + (math.log(hb) - math.log(tb)) ** 2)
    high = middle + math.sqrt((math.log(ha) - math.log(ta)) ** 2 + (math.log(tb) - math.log(lb)) ** 2)
    return ta / tb, math.exp(low), math.exp(high), not (la <= hb and lb <= ha)


def measured(side):
    key = SeriesKey(machine="m", environment="e", benchmark="b", implementation="i", case="c", version="1")
    interval = None if side["low"] is None else Interval(low=side["low"], high=side["high"], method="t")
    return Measurement(
        key=key, commit="c", outcome=Outcome.MEASURED, seconds=side["seconds"], interval=interval, method="m", flop=1e9
    )


def test_arithmetic_is_pythons(tab, out):
    show(tab, out)
    rng = random.Random(7)
    pairs = [(random_side(rng), random_side(rng)) for _ in range(100)]
    pairs += [(side, {**side, "seconds": side["seconds"] * 1.01}) for side in (random_side(rng) for _ in range(50))]
    pairs += [(random_side(rng, bare=True), random_side(rng)) for _ in range(5)]
    near = [(random_side(rng, adjusted=True), random_side(rng, adjusted=True)) for _ in range(30)]
    script = "(pairs) => pairs.map(([a, b]) => Ratios.compare(a, b, true))"
    for (a, b), said in zip(pairs + near, tab.evaluate(script, pairs + near), strict=True):
        ratio, low, high, confirmed = expected(a, b)
        assert said["ratio"] == pytest.approx(ratio, rel=1e-12)
        if low is None:
            assert (said["low"], said["high"], said["confirmed"]) == (None, None, False)
        else:
            assert (said["low"], said["high"]) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))
            assert said["confirmed"] == confirmed and said["adjusted"] == (a["adjusted"] is not None)
    for (a, b), said in zip(pairs, tab.evaluate(script, pairs), strict=True):
        assert said["confirmed"] == changes.compare(measured(b), measured(a)).is_distinct
    ratios = [math.exp(rng.gauss(0, 1)) for _ in range(50)]
    mean = changes.mean_change([changes.Change(ratio=ratio, against="", overlapping=None) for ratio in ratios])
    assert tab.evaluate("(ratios) => Ratios.mean(ratios)", ratios) == pytest.approx(mean, rel=1e-12)


def test_default_is_newest_against_before(tab, out):
    show(tab, out)
    said = chosen(tab)
    assert (said["a"], said["b"], said["am"]) == (SHAS[2][:12], SHAS[3][:12], "bench-1")
    assert summary(tab).startswith("B is as fast as A in the geometric mean of 4 test cases: 0 confirmed faster")
    assert ("matmul", "eager", "") in rows(tab) and ("matmul", "<b>x</b>", "not comparable") in rows(tab)
    texts = tab.locator("#footnotes li").all_inner_texts()
    assert "timed by another method" in texts and any("<script>" in text for text in texts)


def test_link_has_every_choice(tab, out):
    sides = f"#a={SHAS[0][:8]}&b=v1.0&am=bench-1&ae={PLACES[0][1]}&ai=native"
    show(tab, out, f"{sides}&kernel=matmul+Cpu&unit=%C2%B5s&sort=name&text=1M")
    assert rows(tab) == [("matmul", "native", "9.1% slower")]
    values = tab.locator("#rows tbody td.value .text").all_inner_texts()
    assert values == ["1,000 µs", "1,100 µs"]
    assert tab.locator("#rows tbody td:nth-of-type(2) .detail").inner_text() == "ratio 0.896 to 0.922"
    said = chosen(tab)
    assert {name: said[name] for name in ("b", "ai", "kernel", "unit", "sort", "text")} == {
        **{"b": SHAS[1][:12], "ai": "native", "kernel": "matmul Cpu", "unit": "µs", "sort": "name", "text": "1M"}
    }
    before = rows(tab)
    show(tab, out, tab.evaluate("location.hash"))
    assert rows(tab) == before


def test_machines_and_implementations(tab, out):
    show(tab, out, f"#mode=machines&a={SHAS[0][:8]}")
    assert {ratio for _, _, ratio in rows(tab)} == {"2.00x slower"}
    assert chosen(tab)["bm"] == PLACES[1][0]
    show(tab, out, f"#mode=implementations&a={SHAS[0][:8]}&ai=eager&bi=native&unit=GFLOPS")
    assert rows(tab) == [
        ("add_mul_exp", "eager → native", "2.00x faster"),
        ("matmul", "eager → native", "2.00x faster"),
    ]
    tab.select_option("[name=ai]", "")  # each
    tab.wait_for_selector("body[data-ready=yes]")
    assert {name for _, name, _ in rows(tab)} == {"eager → native", "<b>x</b> → native"}  # nothing against itself
    tab.check("[value=anything]")
    assert tab.locator("[data-side=b] select:visible").count() == 2


def test_keyboard_chooses_swaps_and_steps(tab, out):
    show(tab, out, f"#a={SHAS[0][:8]}&b={SHAS[1][:8]}&ai=native&kernel=matmul+Cpu")
    assert rows(tab) == [("matmul", "native", "9.1% slower")]
    tab.focus("#swap")
    tab.keyboard.press("Enter")
    assert rows(tab) == [("matmul", "native", "10.0% faster")]
    tab.focus("[data-side=b] [data-step='1']")
    tab.keyboard.press("Enter")
    assert chosen(tab)["b"] == SHAS[1][:12]
    tab.fill("input[name=b]", "more")
    tab.keyboard.press("Tab")
    assert chosen(tab)["b"] == SHAS[2][:12]
    tab.fill("input[name=b]", "vectorise")
    tab.keyboard.press("Tab")
    assert "type more of its hash" in tab.locator("#problems").inner_text()
    assert chosen(tab)["b"] == SHAS[2][:12]
    tab.fill("[name=text]", "eager")
    assert rows(tab) == [] and tab.locator("#none").is_visible()


def test_address_in_vain(tab, out):
    show(tab, out, "#a=ffffffff&bi=nobody&am=mars&sort=zzz&mode=x&kernel=none&unit=parsec&bm=mars&ae=old")
    gone = {
        **{"mode": "x", "unit": "parsec", "sort": "zzz", "kernel": "none", "commit": "ffffffff"},
        **{"machine": "mars", "environment": "old", "implementation": "nobody"},
    }
    (line,) = tab.locator("#problems li").all_inner_texts()
    named = ", ".join(f"{what} “\u2068{name}\u2069”" for what, name in gone.items())
    assert line == f"Not here, so something else is shown: {named}."
    assert len(rows(tab)) == 6
    tab.select_option("select[name=sort]", "name")
    assert tab.locator("#problems").is_hidden()


def test_address_of_a_lost_environment(tab, out):
    show(tab, out, f"#mode=machines&bm={urllib.parse.quote(PLACES[1][0])}&be=old")
    assert tab.locator("#problems li").all_inner_texts() == [
        "Not here, so something else is shown: environment “\u2068old\u2069”."
    ]
    assert tab.input_value("select[name=bp]") == "1"


def test_csv_has_every_row(tab, out):
    show(tab, out, f"#mode=machines&a={SHAS[0][:8]}")
    with tab.expect_download() as waiting:
        tab.click("#save")
    lines = list(csv.DictReader(io.StringIO(waiting.value.path().read_text(encoding="utf-8"))))
    assert len(lines) == 6 and waiting.value.suggested_filename == f"compare-{SHAS[0][:8]}-{SHAS[0][:8]}.csv"
    native = next(line for line in lines if line["implementation_a"] == "native" and line["kernel"] == "matmul")
    assert (native["machine_b"], native["environment_b"]) == (PLACES[1][0], "'" + PLACES[1][1])
    assert (float(native["seconds_b"]), float(native["speed_ratio"]), native["confirmed"]) == (2e-3, 0.5, "true")


def test_hostile_text_is_not_executed(tab, out):
    show(tab, out, f"#mode=anything&a={SHAS[0][:8]}&b={SHAS[3][:8]}&bm={PLACES[1][0]}")
    tab.fill("input[name=a]", "script")
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("main img, main b, main script").count() == 0
    assert HOSTILE[2] in tab.locator("[data-side=b] .chosen").inner_text()


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
    tab.goto((copy / "compare.html").as_uri(), wait_until="commit")  # series delay the load event
    tab.wait_for_function("/of 400 series loaded/.test(document.getElementById('progress').textContent)")
    tab.select_option("[name=kernel]", "kernel_3 Cpu")  # gives up the rest
    tab.wait_for_selector("body[data-ready=yes]")
    assert len(rows(tab)) == 20 and tab.evaluate("performance.getEntriesByType('resource').length") < 400
    tab.select_option("[name=kernel]", "")
    tab.wait_for_selector("body[data-ready=yes]", timeout=60_000)
    assert len(rows(tab)) == 300
    tab.click("#more")
    assert len(rows(tab)) == 400 and tab.evaluate("document.querySelectorAll('script[src*=series-0]').length") == 0


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
        kept = slice(0, 2) if entry["place"] == 0 else slice(2, 4)
        file = columns(entry["implementation"], entry["place"])
        lists = {name: value[kept] for name, value in file.items() if isinstance(value, list)}
        files[entry["name"]] = {**file, **lists}
    return files


def test_default_commits_of_one_machine(tab, changed):
    copy = changed(staggered())
    show(tab, copy)
    said = chosen(tab)
    assert (said["a"], said["b"]) == (SHAS[2][:12], SHAS[3][:12])
    assert "in the geometric mean of 6 test cases" in summary(tab)
    tab.click("[data-side=a] [data-step='-1']")  # no older one was measured there
    assert chosen(tab)["a"] == SHAS[2][:12]
    show(tab, copy, "#am=bench-1")
    said = chosen(tab)
    assert (said["a"], said["b"]) == (SHAS[0][:12], SHAS[1][:12])
    assert tab.locator("#problems").is_hidden()
    show(tab, copy, f"#am=bench-1&a={SHAS[0][:8]}&b={SHAS[3][:8]}")
    assert f"{SHAS[3][:8]} was not measured on bench-1" in tab.locator("#problems").inner_text()
    tab.click("[data-side=b] [data-step='-1']")
    assert chosen(tab)["b"] == SHAS[1][:12]


def test_adjusted_values_are_compared(tab, changed):
    """Raw times say that the second commit is faster. Adjusted ones, which are compared, that it is slower."""
    files = planted()
    name = next(entry["name"] for entry in files["series-index"]["series"] if entry["implementation"] == "native")
    times = {"seconds": [1e-3, 0.9e-3], "adjusted": [1e-3, 1.25e-3]}
    raw, fair = (times[name] + [1e-3] * 2 for name in ("seconds", "adjusted"))
    ends = {
        f"{prefix}{end}": [value * factor for value in values]
        for prefix, values in (("", raw), ("adjusted_", fair))
        for end, factor in (("low", 0.99), ("high", 1.01))
    }
    files[name] = columns("native", 0, seconds=raw, adjusted=fair, **ends)
    copy = changed(files)
    show(tab, copy, f"#a={SHAS[0][:8]}&b={SHAS[1][:8]}&ai=native&kernel=matmul+Cpu&sort=name")
    assert rows(tab) == [("matmul", "native", "20.0% slower")]
    cells = [cell.split("\n") for cell in tab.locator("#rows tbody td").all_inner_texts()[2:]]
    mark = "1"
    assert cells[0] == [f"4.00 GFLOPS{mark}", "3.96 to 4.04", "measured: 4.00 GFLOPS"]
    assert cells[1] == [f"3.20 GFLOPS{mark}", "3.17 to 3.23", "measured: 4.44 GFLOPS"]
    assert tab.locator("#footnotes li").all_inner_texts()[0].startswith("adjusted: corrected for")
    change, beside = (tab.locator(f"#rows td:nth-of-type(2) {part}").bounding_box() for part in (".change", ".marks"))
    assert beside["x"] >= change["x"] + change["width"] - 1 and beside["y"] < change["y"] + change["height"]


def test_choices_are_steps_back(tab, out):
    show(tab, out)
    tab.select_option("[name=kernel]", "matmul Cpu")
    tab.select_option("[name=unit]", "µs")
    tab.go_back()
    tab.wait_for_function("document.querySelector('[name=unit]').value === 'GFLOPS'")
    assert chosen(tab)["kernel"] == "matmul Cpu"
    tab.go_back()
    tab.wait_for_function("document.querySelector('[name=kernel]').value === ''")
    assert tab.url.startswith((out / "compare.html").as_uri())


def test_flag_of_many_rows_is_one_footnote(tab, changed):
    files = planted()
    for number, entry in enumerate(files["series-index"]["series"]):
        files[entry["name"]]["remarks"]["0"] = [f"contended in {number + 1} of 8 rounds"]
    show(tab, changed(files), f"#a={SHAS[0][:8]}&b={SHAS[1][:8]}")
    assert tab.locator("#footnotes li").all_inner_texts() == ["contended in 1 to 6 of 8 rounds"]
    assert set(tab.locator("#rows sup").all_inner_texts()) == {"1"}
