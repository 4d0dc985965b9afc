"""pytest's plugin: the fixture `kv`, by which a test fails where a kernel of the working tree became slower.

    def test_matmul_is_as_fast_as_on_main(kv):
        kv.gate("matmul", base="main")

That is `kv gate main .` for one kernel, with the same budget and the same lock. Such a test measures: it belongs on a
quiet machine, behind a marker, and past pytest-timeout's limit. Everything but pytest is imported when a test asks.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from pathlib import Path

import pytest


class SuspectWarning(UserWarning):
    """A kernel may be slower, which this gate could neither confirm nor rule out."""


class KernelVelocity:
    """What the fixture `kv` gives a test. `root` is the folder of asv.conf.json."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def gate(self, kernel: object, base: str = "main", budget: float = 10.0) -> None:
        """Compare a kernel of the working tree with that of a commit. Fail the test where it is slower.

        A regression that is confirmed fails the test with the verdict, and so do a benchmark that fails, a build that
        fails and a usage error. A suspect, or an environment that changed, is a `SuspectWarning`. The test is skipped
        where nothing could be compared.

        Args:
            kernel: its name, or its problem.
            base: a commit, such as a branch.
            budget: minutes of measuring.
        """
        from kernel_velocity.__main__ import main  # noqa: PLC0415 - every run of pytest imports this module
        from kernel_velocity.names import CONTROLS  # noqa: PLC0415
        from kernel_velocity.statuses import Status, Tone, tone  # noqa: PLC0415
        from kernel_velocity.terminal import escaped  # noqa: PLC0415

        name = kernel if isinstance(kernel, str) else getattr(kernel, "kernel", None) or getattr(kernel, "name", None)
        if not isinstance(name, str):
            pytest.fail(f"kv.gate: the name of a kernel or its problem is wanted, got {kernel!r}", pytrace=False)
        bench = rf"^{re.escape(name)}\.\w+\.\w+\((?!'(?:{'|'.join(CONTROLS)})')"
        out, err = io.StringIO(), io.StringIO()
        argv = ["gate", base, ".", "--bench", bench, "--budget", f"{budget:g}", "--root", str(self._root)]
        status = main(argv, out, err)
        sys.stdout.write(escaped(out.getvalue()))
        sys.stderr.write(escaped(err.getvalue()))
        summary = (out.getvalue() or err.getvalue()).strip().rpartition("\n")[2]
        if status == Status.NOTHING:
            pytest.skip(f"{name}: {summary}")
        elif tone(status) is Tone.DOUBT:
            warnings.warn(SuspectWarning(f"{name}: {summary}"), stacklevel=2)
        elif tone(status) is Tone.BAD:
            pytest.fail(f"{name}: {summary}", pytrace=False)


@pytest.fixture(scope="session")
def kv(pytestconfig: pytest.Config) -> KernelVelocity:
    """Return the gate of the repository in pytest's root folder."""
    return KernelVelocity(pytestconfig.rootpath)
