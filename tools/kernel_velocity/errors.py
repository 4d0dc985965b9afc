"""What can go wrong in the analysis half: one root, one subclass per cause, each with its exit code.

The codes are a contract with CI (20 a benchmark failed, 21 a build failed, 22 nothing was measured, 2 the
rest). `kernel_velocity.__main__` prints the message of any of these as one line and exits with its code. A message says
what, where, got, wanted, and what to do next.
"""

from __future__ import annotations


class KernelVelocityError(Exception):
    """Root of every error that a user can cause or cure; anything else is a bug and keeps its traceback."""

    exit_code = 2


class UsageError(KernelVelocityError):
    """The command line, a setting or a range does not make sense."""


class ResultsError(KernelVelocityError):
    """Recorded results cannot be read: absent, malformed, or of an unknown version."""


class HistoryError(KernelVelocityError):
    """The git repository cannot be read: none there, no commit, or a revision it does not know."""


# N818 wants an Error suffix; these three are outcomes of a run, and their names are the outcomes' words.
class BenchmarkFailed(KernelVelocityError):  # noqa: N818
    """A benchmark raised, crashed, timed out or gave wrong numbers; the others were measured."""

    exit_code = 20


class BuildFailed(KernelVelocityError):  # noqa: N818
    """A commit could not be built; the others were measured."""

    exit_code = 21


class NothingMeasured(KernelVelocityError):  # noqa: N818
    """The run ended without one value."""

    exit_code = 22


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out: PyTorch's on the CPU is a plain RuntimeError."""
    is_one = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return is_one or "can't allocate memory" in str(error)
