"""compare.html in a real browser: machines that measured different commits, adjusted values, and the way back."""

import shutil

import pytest

from tests.site.test_browser import chromium, tab  # noqa: F401  (fixtures)
from tests.site.test_compare_page import SHAS, chosen, columns, out, planted, rows, show, summary, write  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.fixture
def changed(out, tmp_path):  # noqa: F811
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


def test_it_opens_with_two_commits_that_one_machine_measured(tab, changed):  # noqa: F811
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


def test_what_is_compared_is_what_is_shown(tab, changed):  # noqa: F811
    """Raw times say that the second commit is faster; adjusted ones, which are compared, that it is slower."""
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
    assert tab.locator("#footnotes li").all_inner_texts()[0].startswith("adjusted: freed of")
    change, beside = (tab.locator(f"#rows td:nth-of-type(2) {part}").bounding_box() for part in (".change", ".marks"))
    assert beside["x"] >= change["x"] + change["width"] - 1 and beside["y"] < change["y"] + change["height"]


def test_every_choice_is_a_step_back(tab, out):  # noqa: F811
    show(tab, out)
    tab.select_option("[name=kernel]", "matmul Cpu")
    tab.select_option("[name=unit]", "µs")
    tab.go_back()
    tab.wait_for_function("document.querySelector('[name=unit]').value === 'GFLOPS'")
    assert chosen(tab)["kernel"] == "matmul Cpu"
    tab.go_back()
    tab.wait_for_function("document.querySelector('[name=kernel]').value === ''")
    assert tab.url.startswith((out / "compare.html").as_uri())


def test_a_flag_of_many_rows_is_one_footnote(tab, changed):  # noqa: F811
    files = planted()
    for number, entry in enumerate(files["series-index"]["series"]):
        files[entry["name"]]["remarks"]["0"] = [f"contended in {number + 1} of 8 rounds"]
    show(tab, changed(files), f"#a={SHAS[0][:8]}&b={SHAS[1][:8]}")
    assert tab.locator("#footnotes li").all_inner_texts() == ["contended in 1 to 6 of 8 rounds"]
    assert set(tab.locator("#rows sup").all_inner_texts()) == {"1"}
