"""asv's plugin (`plugins` in asv.conf.json): the environment of a commit, asv's commands, our pages in `asv publish`.

asv has the configuration's folder on `sys.path` only while it imports this module, so every package that is needed
later must be imported here, at module level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.publishing import OutputPublisher

from kernel_velocity import lock
from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.files import replace_text
from kernel_velocity.results.ingest import ingest
from kernel_velocity.runner.asv_commands import adapt
from kernel_velocity.runner.environment import HostTorch
from kernel_velocity.runner.host import write_site

__all__ = ["HostTorch", "KernelVelocityPages", "linked", "setup"]  # HostTorch: asv finds it as a subclass

FOLDER = "kernel-velocity"  # below asv's html_dir
LINK = f'<a href="{FOLDER}/index.html"><b>Kernel velocity: GFLOPS of every commit</b></a>'
# Pages of asv that link to ours: the text in front of which the link is put, and the link. The first is asv's, before
# its navigation. The second is what a browser shows in its place without a network.
LINKS = {
    "index.html": ('<li id="nav-li-" ', f"<li>{LINK}</li>\n\t"),
    "error.html": ("</body>", f"  <p>{LINK} needs no network and no server.</p>\n  "),
}

setup = adapt  # asv calls it when it has imported a plugin


def linked(name: str, html: str) -> str:
    """Return asv's page `name` with a link to our pages.

    Raises:
        asv.util.UserError: the page is not the one of asv 0.6.6.
    """
    anchor, link = LINKS[name]
    if html.count(anchor) != 1:
        raise util.UserError(
            f"asv's {name}: wanted one {anchor!r} to put the link to {FOLDER}/ in front of, got {html.count(anchor)}; "
            f"asv 0.6.6 has it. The pages themselves are written: open {FOLDER}/index.html"
        )
    return html.replace(anchor, link + anchor)


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
            try:
                with lock.held(root, measures=False, wait=False):
                    problems = ingest(root, results=Path(conf.results_dir).absolute()).problems
            except lock.HeldError as error:
                problems = [f"the rounds in the spool are not ingested: {error.message}"]
            for line in problems:
                log.warning(line)
            notes = write_site(results=Path(conf.results_dir), repository=root, out=html / FOLDER)
        except KernelVelocityError as error:
            raise util.UserError(str(error)) from error
        for note in notes:
            log.warning(note)
        for name in LINKS:
            replace_text(html / name, linked(name, (html / name).read_text(encoding="utf-8")))
