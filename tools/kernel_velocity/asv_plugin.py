"""asv's plugin (`plugins` in asv.conf.json): the environment of a commit, and our pages in `asv publish`.

asv has the configuration's folder on `sys.path` only while it imports this module, so every package that is needed
later must be imported here, at module level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.publishing import OutputPublisher

from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.files import replace_text
from kernel_velocity.results.ingest import ingest
from kernel_velocity.runner.environment import HostTorch
from kernel_velocity.runner.publish import write_site

__all__ = ["HostTorch", "KernelVelocityPages", "link_from_index"]  # HostTorch: asv finds it as a subclass

FOLDER = "kernel-velocity"  # below asv's html_dir
_ANCHOR = '<li id="nav-li-" '  # the first entry of the navigation on asv's page


def link_from_index(html: str) -> str:
    """Return asv's index page with a link to our pages before its navigation.

    Raises:
        asv.util.UserError: the page has not the navigation of asv 0.6.6.
    """
    if html.count(_ANCHOR) != 1:
        raise util.UserError(
            f"asv's index.html: wanted one {_ANCHOR!r} to put the link to {FOLDER}/ in front of, got "
            f"{html.count(_ANCHOR)}; asv 0.6.6 has it. The pages themselves are written: open {FOLDER}/index.html"
        )
    link = f'<li><a href="{FOLDER}/index.html"><b>Kernel velocity: GFLOPS of every commit</b></a></li>\n\t'
    return html.replace(_ANCHOR, link + _ANCHOR)


class KernelVelocityPages(OutputPublisher):  # type: ignore[misc]  # asv ships no types
    """Our pages in asv's site: ingest the spooled telemetry, then write the pages below asv's html_dir."""

    name = "kernel-velocity"
    button_label = "Kernel velocity"
    description = "GFLOPS of every kernel at every commit"
    order = 1

    @classmethod
    def publish(cls, conf: Any, repo: Any, benchmarks: Any, graphs: Any, revisions: Any) -> None:
        """Write the site. `asv publish` calls this in the configuration's folder.

        Raises:
            asv.util.UserError: asv prints it as one line and exits with status 1.
        """
        del repo, benchmarks, graphs, revisions
        root, html = Path.cwd(), Path(conf.html_dir).absolute()
        try:
            for line in ingest(root, results=Path(conf.results_dir).absolute()).problems:
                log.warning(line)
            notes = write_site(results=Path(conf.results_dir), repository=root, out=html / FOLDER)
        except KernelVelocityError as error:
            raise util.UserError(str(error)) from error
        for note in notes:
            log.warning(note)
        index = html / "index.html"
        replace_text(index, link_from_index(index.read_text(encoding="utf-8")))
