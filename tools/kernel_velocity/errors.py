"""Errors that a user can cause or cure: one root, and one subclass per cause with its exit code.

The codes are those of `statuses.Status`, 2 where nothing else is said.
`kernel_velocity.__main__` prints the message as one line and exits with the code. A message names the problem and its
place, the value and the wanted one, and the next step.
"""

from __future__ import annotations

from kernel_velocity.statuses import Status


class KernelVelocityError(Exception):
    """Root of every error that a user can cause or cure. Any other exception is a bug and keeps its traceback."""

    exit_code = Status.ERROR


class UsageError(KernelVelocityError):
    """The command line, a setting or a range is malformed."""


class ResultsError(KernelVelocityError):
    """Recorded results are missing, malformed, or of an unknown version."""


class HistoryError(KernelVelocityError):
    """There is no git repository, it has no commit, or a revision is unknown."""


# N818 wants an Error suffix; these three are outcomes of a run, and are named after them.
class BenchmarkFailed(KernelVelocityError):  # noqa: N818
    """A benchmark raised, crashed, timed out or gave wrong numbers. The others were measured."""

    exit_code = Status.BENCHMARK_FAILED


class BuildFailed(KernelVelocityError):  # noqa: N818
    """A commit could not be built. The others were measured."""

    exit_code = Status.BUILD_FAILED


class NothingMeasured(KernelVelocityError):  # noqa: N818
    """The run ended without a value."""

    exit_code = Status.NOTHING
