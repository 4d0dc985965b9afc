"""Measures in Chromium how long pages take, ours beside asv's of the same results, taking turns.

    python -m tests.site.browser_timings FOLDER [--turns 5] [--only home]

FOLDER gets the trees of tests/large_tree.py, our sites and asv's, unless it has them: remove `site` to have ours
written again. asv's pages load libraries from the network: npm brings them. Pages come from a server on this machine,
each into a browser without a cache. A page is ready when it has loaded, and for QUIET s nothing changed, was drawn or
kept the main thread busy. Its time is that of the last such event. Processor: of the process that renders the page, all
its threads, its start included.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from kernel_velocity.site import report
from tests import large_tree
from tests.large_tree import Shape
from tests.site import large_site
from tests.site.browser import ARGUMENTS, executable

QUIET = 0.5  # s
PATIENCE = 120_000  # ms
IMPLEMENTATIONS = ("eager", "compile", "native", "triton", "a", "b", "c", "d", "e", "f")
PACKAGES = ("jquery@3.3.1", "flot@0.8.3", "flot-orderbars@1.0.0", "stupid-table-plugin@1.1.3", "blueimp-md5@2.19.0")
PACKAGES += ("bootstrap@3.1.1",)
LIBRARIES = {  # of asv's pages: as they name them -> in the packages
    "jquery-3.3.1.min.js": "jquery/dist/jquery.min.js",
    "jquery.flot.min.js": "flot/jquery.flot.js",
    "jquery.flot.time.min.js": "flot/jquery.flot.time.js",
    "jquery.flot.selection.min.js": "flot/jquery.flot.selection.js",
    "jquery.flot.categories.min.js": "flot/jquery.flot.categories.js",
    "jquery.flot.orderBars.js": "flot-orderbars/js/jquery.flot.orderBars.js",
    "stupidtable.min.js": "stupid-table-plugin/stupidtable.min.js",
    "md5.min.js": "blueimp-md5/js/md5.min.js",
    "bootstrap.min.js": "bootstrap/dist/js/bootstrap.min.js",
    "bootstrap.min.css": "bootstrap/dist/css/bootstrap.min.css",
}
WATCH = """(() => {
  window.lastEvent = 0;
  const happened = () => { window.lastEvent = performance.now(); };
  const ended = (list) => list.getEntries().forEach((entry) => {
    window.lastEvent = Math.max(window.lastEvent, entry.startTime + entry.duration);
  });
  new PerformanceObserver(ended).observe({type: "longtask", buffered: true});
  new PerformanceObserver(ended).observe({type: "resource", buffered: true});
  const all = {subtree: true, childList: true, attributes: true, characterData: true};
  new MutationObserver(happened).observe(document, all);
  for (const name of ["fill", "stroke", "fillText", "fillRect", "drawImage"]) {
    const draw = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...given) { happened(); return draw.apply(this, given); };
  }
})()"""
READY = "(quiet) => document.readyState === 'complete' && performance.now() - window.lastEvent > quiet"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A page to measure."""

    name: str
    folder: Path  # that is served
    address: str  # in it
    wanted: str  # an element that it has when it is ready


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one load of a page took, s."""

    ready: float
    main: float  # of the main thread
    processor: float
    script: float
    kilobytes: float  # transferred


def subjects(folder: Path) -> Iterator[tuple[str, Subject]]:
    """Yield what is measured, each with its kind. Makes what is not there."""
    for length, count in ((10_000, 10), (500, 4)):
        at = folder / f"kernel-{length}-{count}"
        if not (at / "site").exists():
            at.mkdir(parents=True, exist_ok=True)
            large_site.write(large_site.make(at, length, IMPLEMENTATIONS[:count]), at / "site")
        yield (
            "kernel",
            Subject(
                name=f"kernel, {length:,} commits x {count}",
                folder=at / "site",
                address="kernel-matmul-Cuda.html",
                wanted="canvas",
            ),
        )
    for commits, series, kind in ((10_000, 20, "kernel"), (500, 20, "kernel"), (100, 200, "home"), (100, 5000, "home")):
        at = folder / f"tree-{commits}-{series}"
        write(at, Shape(commits=commits, series=series))
        size = f"{commits:,} commits x {series:,}"
        if kind == "kernel":
            ours = kind, "kernel-kernel_000-Cpu.html", "canvas"
            theirs = "graph", "#kernel_000.Cpu.time_hot", "canvas"
        else:
            ours = kind, "index.html", "tbody tr"
            theirs = "list", "#summarylist", "#summarylist-body tr"
        for begin, folder_name, (what, address, wanted) in (("", "site", ours), ("asv's ", "html", theirs)):
            yield (
                kind,
                Subject(name=f"{begin}{what} of {size}", folder=at / folder_name, address=address, wanted=wanted),
            )


def write(at: Path, shape: Shape) -> None:
    """Write a tree, our site and asv's, unless they are there."""
    if not (at / "results").exists():
        large_tree.build(at, shape)
    if not (at / "site").exists():
        report.write_site(results=at / "results", repository=at / "repository", out=at / "site")
    if not (at / "html").exists():
        subprocess.run([sys.executable, "-m", "asv", "publish", "--no-pull"], cwd=at, check=True, capture_output=True)
    bring_libraries(at / "html")


def bring_libraries(html: Path) -> None:
    """Put the libraries of asv's pages beside them, and have the pages load those."""
    index = html / "index.html"
    text = index.read_text(encoding="utf-8")
    if "https://code.jquery.com" not in text:
        return
    command = ["npm", "install", "--no-save", "--ignore-scripts", "--silent", "--prefix", str(html), *PACKAGES]
    subprocess.run(command, check=True, capture_output=True)
    for name, path in LIBRARIES.items():
        assert (html / "node_modules" / path).is_file(), path
        text = re.sub(rf'="https://[^"]*/{re.escape(name)}"[^>]*', f'="node_modules/{path}"', text)
    index.write_text(text, encoding="utf-8")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder from a process of its own. The value is its address."""
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(folder), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().split(" port ")[1].split()[0]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def load(browser: Browser, url: str, wanted: str) -> Load:
    """Load a page into a new tab without a cache."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.add_init_script(WATCH)
    devtools = context.new_cdp_session(tab)
    devtools.send("Performance.enable")
    tab.goto(url)
    tab.wait_for_selector(wanted, state="attached")
    tab.wait_for_function(READY, arg=1000 * QUIET, polling=100)
    metrics = {entry["name"]: entry["value"] for entry in devtools.send("Performance.getMetrics")["metrics"]}
    ready = tab.evaluate("window.lastEvent") / 1000
    size = tab.evaluate("performance.getEntries().reduce((sum, entry) => sum + (entry.transferSize ?? 0), 0)") / 1000
    context.close()
    return Load(
        ready=ready,
        main=metrics["TaskDuration"],
        processor=metrics["ProcessTime"],
        script=metrics["ScriptDuration"],
        kilobytes=size,
    )


def row(name: str, loads: Sequence[Load]) -> str:
    """Return a line of the table: medians, and the range of the first."""
    ready = sorted(load.ready for load in loads)
    middle = {
        key: statistics.median(getattr(load, key) for load in loads)
        for key in ("main", "processor", "script", "kilobytes")
    }
    return (
        f"| {name} | {statistics.median(ready):.2f} ({ready[0]:.2f} to {ready[-1]:.2f}) | {middle['main']:.2f} | "
        f"{middle['script']:.2f} | {middle['processor']:.2f} | {middle['kilobytes']:,.0f} |"
    )


def main() -> None:
    """Measure the pages, and print a table."""
    parser = argparse.ArgumentParser(description="measure how long pages take in Chromium, beside asv's")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", choices=("kernel", "home"))
    args = parser.parse_args()
    chosen = [subject for kind, subject in subjects(args.folder) if args.only in (None, kind)]
    loads: dict[str, list[Load]] = {subject.name: [] for subject in chosen}
    began = time.monotonic()
    with sync_playwright() as playwright, served(args.folder) as address:
        browser = playwright.chromium.launch(executable_path=executable("chromium"), args=ARGUMENTS)
        for _ in range(args.turns):
            for subject in chosen:
                url = f"{address}/{subject.folder.relative_to(args.folder)}/{subject.address}"
                loads[subject.name].append(load(browser, url, subject.wanted))
        browser.close()
    print("| page | ready, s | main thread, s | of it scripts, s | renderer's processor, s | kB |")
    print("|---|---|---|---|---|---|")
    for name, measured in loads.items():
        print(row(name, measured))
    print(f"\nMedians of {args.turns} turns, {time.monotonic() - began:.0f} s in all.")


if __name__ == "__main__":
    main()
