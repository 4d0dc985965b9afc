"""Writes the site: an index, a page for every kernel, a page for every commit, readable from a folder without a server.

`python -m tools report`, and `asv publish` through the plugin. Every page is made before the first file of an older
site is touched; then each file replaces its predecessor in one step, the index last, and pages that the older site
had and this one does not have are removed. The site's own list of files, `site.json`, says which those are: nothing
else in the folder is ever removed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import bokeh
import jinja2

from tools import charts, commit_page, home_page, kernel_page, machines_page, measurement_page, roofline_page, site
from tools.errors import ResultsError
from tools.site import Site
from tools.site_files import Builder, DataFile

TEMPLATES = Path(__file__).resolve().parent.parent / "html_templates"
MANIFEST = "site.json"
# Whose `build` makes a part of the site, in the order of its navigation
MODULES: tuple[Builder, ...] = (home_page, commit_page, roofline_page, measurement_page, machines_page)


@dataclass(frozen=True, kw_only=True)
class SiteSummary:
    """What was written, and what could not be read."""

    index: Path
    pages: int
    commits: int  # with a page
    series: int  # with a trend
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


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Write the site; notes go to `err`, one line each, the page's place to `out`."""
    summary = write_site(results=args.results, repository=args.repository, out=args.out)
    for note in summary.notes:
        print(f"note: {note}", file=err)
    print(f"{summary.series} series over {summary.commits} commits: {summary.index.as_uri()}", file=out)
    return 0


def write_site(*, results: Path, repository: Path, out: Path) -> SiteSummary:
    """Write the site of a results directory below `out`.

    Args:
        results: asv's results directory.
        repository: a folder of the repository whose commits were measured.
        out: the site's folder; made where it does not exist. Files of other origin in it are left alone.

    Raises:
        ResultsError: `results` is no directory, or `out` is a file.
        HistoryError: `repository` is no git repository with a commit.
    """
    found = site.read(results, repository)
    if out.exists() and not out.is_dir():
        raise ResultsError(f"{out}: a folder for the site is wanted, this is a file: name another with --out")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=out) as folder:
        names = _render(found, Path(folder))
        _replace(Path(folder), names, out)
    return SiteSummary(
        index=(out / "index.html").resolve(),
        pages=sum(name.endswith(".html") for name in names),
        commits=sum(name.startswith("commit-") for name in names),
        series=len(found.keys),
        notes=found.notes,
    )


def page_templates() -> jinja2.Environment:
    """Return the templates of the pages, strict: what a page does not have is an error, and text is escaped."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Bokeh's documents define a model where they first name it: sorted keys would name it before (jinja's default)
    templates.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return templates


def _render(whole: Site, folder: Path) -> tuple[str, ...]:
    """Write every file of the site into `folder`; return their names, the index last."""
    templates = page_templates()
    names = _copy_static(folder)
    for module in MODULES:
        for made in module.build(whole):
            if isinstance(made, DataFile):
                names += _write_data(folder, made)
            else:
                context = made.context() if callable(made.context) else made.context
                names.append(_write(folder, made.name, templates.get_template(made.template).render(context)))
    for kernel in kernel_page.build(whole.data):
        embedded = [charts.embed(section.chart) for section in kernel.sections]
        text = templates.get_template("kernel.html").render(page=kernel, charts=embedded)
        names.append(_write(folder, kernel.name, text))
    return tuple(sorted(names, key=lambda name: name == home_page.NAME))  # a stable sort: the rest in its order


def _write(folder: Path, name: str, text: str) -> str:
    # JSON can hold half of a surrogate pair, UTF-8 cannot: it becomes a question mark
    (folder / name).write_text(text, encoding="utf-8", errors="replace")
    return name


def _write_data(folder: Path, made: DataFile) -> list[str]:
    """Write data as JSON, and as a script that hands it to the page: from a folder, a page can load nothing else."""
    (folder / "data").mkdir(exist_ok=True)
    text = json.dumps(made.value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    script = f"KV.put({json.dumps(made.name)},{text});\n"
    return [_write(folder, f"data/{made.name}.json", text), _write(folder, f"data/{made.name}.js", script)]


def _copy_static(folder: Path) -> list[str]:
    """Copy style, script and Bokeh's own script (from the installed package: no CDN) into the site."""
    (folder / "static").mkdir()
    sources = [*sorted((TEMPLATES / "static").iterdir()), Path(bokeh.__file__).parent / "server/static/js/bokeh.min.js"]
    for source in sources:
        shutil.copyfile(source, folder / "static" / source.name)
    return [f"static/{source.name}" for source in sources]


def _replace(new: Path, names: tuple[str, ...], out: Path) -> None:
    """Move the new files into place, each in one step, then remove those that only the older site had."""
    stale = _written_before(out) - set(names)
    for folder in {str(Path(name).parent) for name in names}:
        (out / folder).mkdir(exist_ok=True)
    # The list names old and new while both are there: a crash in between leaves nothing that no run removes
    _write(new, MANIFEST, json.dumps(sorted(stale | set(names))))
    (new / MANIFEST).replace(out / MANIFEST)
    for name in names:
        (new / name).replace(out / name)
    for name in stale:
        (out / name).unlink(missing_ok=True)
    _write(new, MANIFEST, json.dumps(sorted(names)))
    (new / MANIFEST).replace(out / MANIFEST)


def _written_before(out: Path) -> set[str]:
    """Return the files that an older site wrote, as its list says; only plain names inside `out` count."""
    path = out / MANIFEST
    if not path.exists():
        return set()
    try:
        listed: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultsError(f"{path}: not the list of a site's files ({error}): remove the folder {out}") from None
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ResultsError(f"{path}: a list of file names is wanted: remove the folder {out}")
    inside = out.resolve()
    return {name for name in listed if (inside / name).resolve().is_relative_to(inside) and (inside / name).is_file()}
