"""`kv report` and `asv publish`: write the site of a results directory, readable from a folder without a server.

The modules of `pages/` make its parts. Only what changed since the last report is read, made and written.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import jinja2
from jinja2.bccache import Bucket

from kernel_velocity import bounds, forking, progress, units
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.findings.finding import OPEN
from kernel_velocity.past import cache
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import name_parts
from kernel_velocity.site import model, outside, series_data, text
from kernel_velocity.site.model import Site, Unfinished
from kernel_velocity.site.pages import commit_facts, finding, home, kernel, machines, measurement, roofline
from kernel_velocity.site.writer import INDEX, DataFile, Entry, Page, Writer
from kernel_velocity.verdict.ranges import CommitRange

Part = Callable[[Site], Iterator[Page | DataFile]]  # yields some files of a site

SEARCH_FORMAT = 1  # of the data of the search
NEW = ".new-"  # begins the names of the folders that sites are made in
LONGEST = 3600.0  # s; no report takes longer
TEMPLATES = Path(__file__).resolve().parents[1] / "html_templates"
FEWEST_APART = 50  # measured commits; the pages of fewer are made sooner than handed from one process to another
NAVIGATION = (  # title, file, and how the names of the pages below it begin
    ("Overview", INDEX, ()),
    ("Kernels", f"{INDEX}#kernels", ("kernel-",)),
    ("Commits", f"{INDEX}#commits", ("commit-", "code-")),
    ("Findings", "findings.html", ("finding-",)),
    ("Compare", "compare.html", ()),
    ("Roofline", "roofline.html", ()),
    ("Machines", "machines.html", ()),
)
UPLOT = Path(__file__).parent / "charts" / "uplot"  # the interactive charts' library (tools/hatch_build.py)
UPLOT_FILES = ("uPlot.iife.min.js", "uPlot.min.css")
STYLE = "style.css"  # of all pages
# Files that are several joined, in this order: of a page that is ready after .3 s, each request took .01 s and more.
# uPlot comes last, so that "use strict" begins the file.
JOINED = {
    "site.js": ("page.js", "data.js", "numbers.js", "search.js"),
    "kernel.js": ("trend.js", "kernel_tip.js", "kernel.js", "uPlot.iife.min.js"),
    "kernel.css": ("uPlot.min.css", "kernel.css"),
}
OF_KERNELS = ("roofline.html", "measurement.html")  # pages without a content where all series are another suite's


@dataclass(frozen=True, kw_only=True)
class SiteSummary:
    """What a report did."""

    index: Path
    pages: int
    commits: int  # with a page
    series: int  # with a trend
    read: int  # results files that were read; the others were in the cache
    made: int  # pages and data files that were made; the inputs of the others are unchanged
    written: int  # files that were written; the others are unchanged
    notes: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the `report` command."""
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="asv's results directory (default: results)"
    )
    parser.add_argument("--repository", type=Path, default=Path(), help="the clone of the kernels (default: here)")
    out = Path(".asv/html/kernel-velocity")
    parser.add_argument("--out", type=Path, default=out, help=f"the folder to write (default: {out})")
    where = ".asv/cache/report beside the results"
    parser.add_argument(
        "--unfinished",
        nargs=2,
        metavar=("UNTIL", "TEXT"),
        help="what is still being measured: the overview says it, and renews itself until then, a Unix time",
    )
    parser.add_argument("--cache", type=Path, help=f"the cache, which is safe to delete (default: {where})")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Write the site. Print notes to `err`, one line each, and the address of the index to `out`."""
    with progress.reported(err):
        summary = write_site(
            results=args.results,
            repository=args.repository,
            out=args.out,
            cache=args.cache,
            unfinished=args.unfinished and _unfinished(*args.unfinished),
        )
    for note in summary.notes:
        print(f"note: {note}", file=err)
    print(f"{summary.series} series over {summary.commits} commits: {summary.index.as_uri()}", file=out)
    return 0


def _unfinished(until: str, text: str) -> Unfinished:
    """Return what --unfinished says.

    Raises:
        UsageError: its time is none.
    """
    with contextlib.suppress(ValueError):
        if bounds.is_moment(moment := float(until)):
            return Unfinished(moment, text)
    raise UsageError(f"--unfinished {until}: a Unix time in seconds is wanted, then a text")


def write_site(
    *, results: Path, repository: Path, out: Path, cache: Path | None = None, unfinished: Unfinished | None = None
) -> SiteSummary:
    """Write the site of a results directory below `out`.

    Args:
        results: asv's results directory.
        repository: a folder of the repository whose commits were measured.
        out: the site's folder, made if it does not exist. Files of other origin in it are left alone.
        cache: the cache folder. None: the usual one beside the results directory.
        unfinished: what a run still measures. The overview says it, and renews itself for a while.

    Raises:
        ResultsError: `results` is no directory, or has nothing to show, or `out` is a file.
        HistoryError: `repository` is no git repository with a commit.
    """
    site = model.read(results, repository, cache, unfinished)
    if not (site.measured or site.verdicts or site.findings):
        raise ResultsError(_nothing(site))
    if out.exists() and not out.is_dir():
        raise ResultsError(f"{out}: a folder for the site is wanted, this is a file: name another with --out")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=NEW, dir=out) as folder:
        _remove_leftovers(Path(folder))
        writer = Writer(new=Path(folder), out=out, makers=f"{_makers()} {site.has_kernels}")
        _make_all(site, writer)
        writer.finish()
    return SiteSummary(
        index=(out / INDEX).resolve(),
        pages=sum(name.endswith(".html") for name in writer.files),
        commits=sum(name.startswith("commit-") for name in writer.files),
        series=len(site.keys),
        read=len(site.past.directory.read),
        made=writer.made,
        written=len(writer.fresh),
        notes=site.notes,
    )


def compare_page(site: Site) -> Iterator[Page]:
    """Yield compare.html: two commits, machines or implementations compared. Without results it says how to measure.

    A form, whose script reads `data/commits`, `data/series-index` and the files of the chosen series. The choice is in
    the address. The browser tests hold its arithmetic against this package's.
    """
    yield Page(name="compare.html", template="versus.html", context={"has_series": bool(site.keys)})


def search_words(site: Site) -> Iterator[DataFile]:
    """Yield what the search finds beside measured commits: pairs of a text and an address.

    Of kernels, of test cases, and of commits without a result that can have caused a change: where they are listed.
    """
    several = len(site.platforms) > 1
    kernels: dict[str, str] = {}
    causes: dict[str, tuple[str, CommitRange]] = {}
    cases: dict[str, str] = {}  # by address: the implementations of a test case share a chart
    for key in site.keys:
        name, device, state = name_parts(key.benchmark)
        kernels.setdefault(text.kernel_href(name, device), " ".join(filter(None, (name, device))))
        platform = key.machine if several else ""
        cases.setdefault(text.trend_href(key), " ".join(filter(None, (name, key.case, device, state, platform))))
        levels, positions = site.levels[key], site.series(key).position
        for point, commits in zip(levels.points, levels.ranges, strict=True):
            listed = text.causes_href(site.commits[site.line[positions[point.index]]])
            causes |= {sha: (listed, commits) for sha in commits.commits if sha not in site.past.paths}
    entries = [[words, href] for href, words in (*kernels.items(), *cases.items())]
    for sha, (href, commits) in causes.items():
        subject = commit.subject if (commit := site.commit(sha)) else ""
        entries.append([f"{sha[:SHORT]} {subject} (not measured, {commits.count})", href])
    yield DataFile(name="search", value={"format": SEARCH_FORMAT, "entries": entries})


# The parts that two processes begin with, and the others
LARGE: tuple[Part, ...] = (series_data.build, commit_facts.build)
SMALL: tuple[Part, ...] = (
    home.build,
    compare_page,
    finding.build_pages,
    finding.build_list,
    roofline.build,
    measurement.build,
    machines.build,
    outside.build_badges,
    search_words,
)


def _nothing(site: Site) -> str:
    """Return why a results directory has nothing that a page could show."""
    if not site.has_results:
        return f"{site.results}: no results: `kv track` measures, or name asv's results directory with --results"
    cause, *others = site.notes or ["its files hold no values"]
    more = f" (and {units.count(len(others), 'other cause')})" if others else ""
    return (
        f"{site.results}: none of its results can be shown: {cause}{more}. Name asv's results directory with --results "
        "and a clone of the repository that was measured with --repository"
    )


def _remove_leftovers(new: Path) -> None:
    """Remove the folders of killed reports beside a new one's. A younger folder may be a running report's."""
    for other in new.parent.glob(f"{NEW}*"):
        with contextlib.suppress(FileNotFoundError):  # that report has just ended
            if other.is_dir() and new.stat().st_mtime - other.stat().st_mtime > LONGEST:
                shutil.rmtree(other, ignore_errors=True)


def _makers() -> str:
    """Return a digest of the code, the templates and the libraries that make the pages."""
    digest = hashlib.sha256(f"jinja2 {jinja2.__version__} {cache.code()}".encode())
    for path in sorted(TEMPLATES.glob("*.*")):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


class _CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """Compiled templates in a folder. Templates that cannot be written there are compiled at every report."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template."""
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def page_templates(cache: Path | None = None) -> jinja2.Environment:
    """Return the page templates: undefined names are errors, text is escaped.

    Args:
        cache: the cache folder, for compiled templates. None or a folder that cannot be made: they are not kept.
    """
    compiled = None
    if cache is not None:
        with contextlib.suppress(OSError):  # the notes of `past.open` name such a folder
            (cache / "templates").mkdir(parents=True, exist_ok=True)
            compiled = _CompiledTemplates(str(cache / "templates"))
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        auto_reload=False,  # else each page checks whether its templates changed
        bytecode_cache=compiled,
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["kernels"] = True
    templates.globals["navigation"] = ()  # of a page that stands alone
    return templates


def links(page: str, *, kernels: bool = True) -> list[tuple[str, str, str]]:
    """Return title, file and `aria-current` of the navigation's links on a page: "page", "true" on a page below.

    Args:
        kernels: whether the site has kernels, whose pages OF_KERNELS are.
    """
    return [
        (title, file, "page" if page == file else "true" if page.startswith(below) else "")
        for title, file, below in NAVIGATION
        if kernels or file not in OF_KERNELS
    ]


def _make_all(site: Site, writer: Writer) -> None:
    """Make the site. A large site in two processes, which take the parts in turn."""
    files = static_files()
    if number := sum(finding.state in OPEN for finding in site.findings):
        # in the style, so that a night's findings make no page anew that does not show them
        files[STYLE] += f':root {{ --open-findings: "{number}"; }}\n'.encode()
    for name, content in files.items():
        writer.add(f"static/{name}", content)
    parts = [*LARGE, *SMALL, *kernel.parts(site)]  # the largest first, so that no process waits long for the other
    numbered = [*enumerate(parts)]
    making = "making parts of the pages"
    if len(site.measured) < FEWEST_APART:
        _make(site, writer, progress.shown(making, numbered, len(parts)))
        return
    _ = len(site.levels)  # of all series at once, before there are two processes
    shared = progress.shown(making, forking.share(numbered), len(parts))

    def make() -> tuple[Mapping[str, Entry], Sequence[str], int]:
        part = writer.part()
        _make(site, part, shared)
        return part.files, part.fresh, part.made

    with forking.forked(make) as result:
        _make(site, writer, shared)
        writer.add_part(*result())


def static_files() -> dict[str, bytes]:
    """Return the styles and scripts of the pages, by name. No CDN: the charts' library is among them.

    Raises:
        UsageError: the package was not installed, so it lacks the library.
    """
    files = {path.name: path.read_bytes() for path in (TEMPLATES / "static").iterdir()} | _uplot()
    joined = {name: b"\n".join(map(files.__getitem__, parts)) for name, parts in JOINED.items()}
    in_others = {part for parts in JOINED.values() for part in parts}
    return {name: content for name, content in files.items() if name not in in_others} | joined


def _uplot() -> dict[str, bytes]:
    """Return uPlot's script and style sheet by name.

    Raises:
        UsageError: the package was not installed, so it lacks them.
    """
    for path in (UPLOT / name for name in UPLOT_FILES):
        if not path.is_file():
            package = Path(__file__).parents[2]
            raise UsageError(f"{path}: the charts' library is missing: install the package, `pip install -e {package}`")
    return {name: (UPLOT / name).read_bytes() for name in UPLOT_FILES}


def _make(site: Site, writer: Writer, parts: Iterable[Part]) -> None:
    """Make the files of some parts of the site, if they have to be made."""
    templates = page_templates(site.past.folder)

    def render(page: Page) -> str:
        context = page.context() if callable(page.context) else page.context
        navigation = links(page.name, kernels=site.has_kernels) if site.platforms else ()
        template = templates.get_template(page.template)
        return template.render(context, navigation=navigation, kernels=site.has_kernels)

    for part in parts:
        for file in part(site):
            if not site.has_kernels and file.name in OF_KERNELS:
                continue
            if isinstance(file, DataFile):
                html = templates.get_template(file.template).render(file.value) if file.template else None
                writer.data(file if html is None else replace(file, value=html))
            else:
                writer.page(file, render)
