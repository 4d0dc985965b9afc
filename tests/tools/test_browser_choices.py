"""Choices in a real browser whose data are lost, late, or one value only; and the reader's way back."""

import shutil

import pytest

from tests.tools.test_browser import chromium, tab  # noqa: F401 - fixtures
from tests.tools.test_browser_measuring import NATIVE, READY, SOURCE, measurement, show, site  # noqa: F401 - fixture

pytestmark = pytest.mark.slow
HASH = "decodeURIComponent(location.hash)"


@pytest.fixture
def losing(chromium, site, tmp_path):  # noqa: F811
    """Return a function that opens a copy of the site without some data files; complaints of its loss are no failure."""
    context = chromium.new_context(offline=True, viewport={"width": 1200, "height": 900})

    def opened(name, *lost, **address):
        out = tmp_path / "site"
        shutil.copytree(site[1], out)
        for pattern in lost:
            for path in out.glob(f"data/{pattern}.js"):
                path.unlink()
        page = context.new_page()
        page.goto((out / name).as_uri() + "".join(f"#{key}={value}" for key, value in address.items()))
        return page

    yield opened
    context.close()


def test_no_number_stands_under_the_commit_of_lost_rounds(losing, site):  # noqa: F811
    tree, _ = site
    page = losing("measurement.html", f"rounds-{tree.commits[1][:8]}-0")
    page.wait_for_selector("body[data-ready]")
    page.select_option("select[name=commit]", tree.commits[1])
    page.wait_for_function("document.getElementById('status').textContent.includes('cannot be loaded')")
    assert page.locator("#measurement").is_hidden()
    assert page.locator("#commit").inner_text().startswith(tree.commits[1][:8])
    assert f"commit={tree.commits[1]}" in page.url
    page.reload()
    page.wait_for_function("document.getElementById('status').textContent.includes('cannot be loaded')")
    assert page.input_value("select[name=commit]") == tree.commits[1]


def test_late_samples_leave_the_address_of_what_is_shown(tab, site):  # noqa: F811
    tree, out = site
    _, name = measurement(tree, 4, NATIVE)
    show(tab, out, "measurement.html", commit=tree.commits[4])
    tab.evaluate("""() => {
      const load = KV.load;
      window.held = [];
      KV.load = async (name) => {
        if (name.startsWith("traces-")) await new Promise((resolve) => window.held.push(resolve));
        return load(name);
      };
    }""")
    tab.evaluate(f"location.hash = 'commit={tree.commits[4]}&series={name}'")
    tab.wait_for_function("window.held.length > 0")
    tab.select_option("select[name=commit]", tree.commits[0])
    tab.select_option("select[name=implementation]", "eager")  # which has no trace to wait for
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[0]}')")
    chosen = tab.evaluate(HASH)
    tab.evaluate("window.held.forEach((resolve) => resolve())")
    tab.evaluate("new Promise((resolve) => setTimeout(resolve, 50))")
    assert tab.evaluate(HASH) == chosen
    assert tab.evaluate("document.body.dataset.ready").startswith(tree.commits[0])


def test_every_choice_of_a_measurement_is_a_step_and_the_trace_is_in_the_address(tab, site):  # noqa: F811
    tree, out = site
    _, name = measurement(tree, 4, NATIVE)
    show(tab, out, "measurement.html", commit=tree.commits[4], series=name)
    tab.wait_for_selector("#trace select")
    tab.select_option("#trace select", "process-02")
    assert "trace=process-02" in tab.url
    second = tab.locator("#trace circle").nth(3).get_attribute("cy")
    tab.reload()
    tab.wait_for_selector("#trace select")
    assert tab.input_value("#trace select") == "process-02"
    assert tab.locator("#trace circle").nth(3).get_attribute("cy") == second
    tab.select_option("select[name=commit]", tree.commits[0])
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[0]}')")
    tab.go_back()
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[4]}')")
    assert tab.input_value("#trace select") == "process-02"
