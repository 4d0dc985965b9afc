"""Writes the site: an index, a page for every kernel, a page for every commit, readable from a folder without a server.

`kv report`, and `asv publish` through the plugin. Of the results only what changed since the last report
is read (`site`), and of the site only what changed is made and written (`site_writing`).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import jinja2
from jinja2.bccache import Bucket

from kernel_velocity import forking
from kernel_velocity.errors import ResultsError
from kernel_velocity.series.cache import code
from kernel_velocity.series.change_points import New
from kernel_velocity.site import badges, model, navigation, series_data
from kernel_velocity.site.charts import documents
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import Builder, DataFile, Page, Part
from kernel_velocity.site.pages import commit, compare, finding, findings, home, kernel, machines, measurement, roofline
from kernel_velocity.site.writer import INDEX, Writer, Written

NEW = ".new-"  # begins the names of the folders that sites are made in
LONGEST = 3600.0  # s that no report takes
TEMPLATES = Path(__file__).resolve().parents[1] / "html_templates"
MODULES: tuple[Builder, ...] = (
    series_data,
    home,
    kernel,
    commit,
    compare,
    finding,
    findings,
    roofline,
    measurement,
    machines,
    badges,
)  # whose `build` makes a part of the site, in the order of its navigation
LARGEST = (series_data, commit)  # what two processes begin with
FEWEST_APART = 50  # measured commits; the pages of fewer are made sooner than told from one process to another


@dataclass(frozen=True, kw_only=True)
class SiteSummary:
    """What was written, and what could not be read."""

    index: Path
    pages: int
    commits: int  # with a page
    series: int  # with a trend
    read: int  # results files that were read; the others were known from before
    made: int  # pages and data files that were made; the others were made from the same before
    written: int  # files that were written; the others are as they were
    notes: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the `report` command."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="asv's results directory (results)")
    parser.add_argument("--repository", type=Path, default=Path(), help="a clone of the repository (.)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(".asv/html/kernel-velocity"),
        help="the site's folder (.asv/html/kernel-velocity)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        help="folder of what is kept of the results between reports; safe to delete (.asv/cache/report beside them)",
    )


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Write the site; notes go to `err`, one line each, the page's place to `out`."""
    summary = write_site(results=args.results, repository=args.repository, out=args.out, cache=args.cache)
    for note in summary.notes:
        print(f"note: {note}", file=err)
    print(f"{summary.series} series over {summary.commits} commits: {summary.index.as_uri()}", file=out)
    return 0


def write_site(*, results: Path, repository: Path, out: Path, cache: Path | None = None) -> SiteSummary:
    """Write the site of a results directory below `out`.

    Args:
        results: asv's results directory.
        repository: a folder of the repository whose commits were measured.
        out: the site's folder; made where it does not exist. Files of other origin in it are left alone.
        cache: the folder of what is kept of the results; None: the usual one beside them.

    Raises:
        ResultsError: `results` is no directory, or `out` is a file.
        HistoryError: `repository` is no git repository with a commit.
    """
    found = model.read(results, repository, cache)
    if out.exists() and not out.is_dir():
        raise ResultsError(f"{out}: a folder for the site is wanted, this is a file: name another with --out")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=NEW, dir=out) as folder:
        _remove_leftovers(Path(folder))
        writer = Writer(new=Path(folder), out=out, makers=_makers())
        _make_all(found, writer)
        writer.finish()
    return SiteSummary(
        index=(out / INDEX).resolve(),
        pages=sum(name.endswith(".html") for name in writer.files),
        commits=sum(name.startswith("commit-") for name in writer.files),
        series=len(found.keys),
        read=len(found.past.directory.read),
        made=writer.made,
        written=len(writer.fresh),
        notes=found.notes,
    )


def _remove_leftovers(new: Path) -> None:
    """Remove what reports that were killed left beside a new one's folder; another may be writing at this moment."""
    for other in new.parent.glob(f"{NEW}*"):
        with contextlib.suppress(FileNotFoundError):  # it ended just now
            if other.is_dir() and new.stat().st_mtime - other.stat().st_mtime > LONGEST:
                shutil.rmtree(other, ignore_errors=True)


def _makers() -> str:
    """Return what changes with the code and the templates that make the pages, and with the libraries they use."""
    found = hashlib.sha256(f"jinja2 {jinja2.__version__}".encode())
    found.update(code().encode())
    for path in sorted([*TEMPLATES.glob("*.*"), documents.script()]):
        found.update(f"{path.name}\n".encode() + path.read_bytes())
    return found.hexdigest()


def page_templates(cache: Path | None = None) -> jinja2.Environment:
    """Return the templates of the pages, strict: what a page does not have is an error, and text is escaped.

    Args:
        cache: the folder of what is kept between reports, here the templates as compiled; None: nothing is kept.
    """
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        auto_reload=False,  # else each page asks whether its templates changed
        bytecode_cache=_compiled(cache),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Bokeh's documents define a model where they first name it: sorted keys would name it before (jinja's default)
    templates.policies["json.dumps_kwargs"] = {"sort_keys": False}
    templates.globals["navigation"] = ()  # of a page that stands alone
    return templates


def _compiled(cache: Path | None) -> jinja2.BytecodeCache | None:
    if cache is None:
        return None
    folder = cache / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a cache that cannot be used has its note (`past.open`)
        return None
    return _Compiled(str(folder))


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Templates as compiled; where they cannot be written, they are compiled again."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a template."""
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _make_all(found: Site, writer: Writer) -> None:
    """Make the site; a large one in two processes, each of which takes the next part until all are made."""
    _add_static(writer)
    if len(found.measured) < FEWEST_APART:
        _make(found, writer, _parts(found))
        found.past.finder.save({})
        return

    parts = forking.share(_parts(found))

    def make() -> tuple[Mapping[str, Written], Sequence[str], int, New]:
        part = writer.part()
        _make(found, part, parts)
        return part.files, part.fresh, part.made, found.past.finder.new

    with forking.forked(make) as made:
        _make(found, writer, parts)
        files, fresh, number, new = made()
        writer.add_part(files, fresh, number)
        found.past.finder.save(new)


def _parts(found: Site) -> list[Part]:
    """Return what makes the parts of the site: the largest first, small ones last, so that none is waited for."""
    small = [module for module in MODULES if module not in (*LARGEST, kernel)]
    large = [module for module in MODULES if module in LARGEST]
    kernels = kernel.parts(found) if kernel in MODULES else []
    return [*(module.build for module in (*large, *small)), *kernels]


def _make(found: Site, writer: Writer, parts: Iterable[Part]) -> None:
    """Make every file of these parts that has to be made."""
    templates, linked = page_templates(found.cache), _linked(found)

    def render(page: Page) -> str:
        context = page.context() if callable(page.context) else page.context
        return templates.get_template(page.template).render(context, navigation=navigation.links(page.name, linked))

    for build in parts:
        for made in build(found):
            if isinstance(made, DataFile):
                writer.data(made)
            else:
                writer.page(made, render)


def _linked(found: Site) -> frozenset[str]:
    """Return the pages that all pages link to: `findings.html` of `findings_page`, none without results."""
    stems = (module.__name__.rpartition(".")[2].removesuffix("_page") for module in MODULES)
    return frozenset([INDEX, *(f"{stem}.html" for stem in stems if found.places)])


def _add_static(writer: Writer) -> None:
    """Add style, scripts and Bokeh's own script (from the installed package: no CDN)."""
    sources = [*sorted((TEMPLATES / "static").iterdir()), documents.script()]
    for source in sources:
        writer.add(f"static/{source.name}", source.read_bytes())
