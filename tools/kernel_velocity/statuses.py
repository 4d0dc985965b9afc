"""Exit statuses, a contract with CI: what each means, how bad it is, and which of several comes first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum, StrEnum


class Tone(StrEnum):
    """How bad a status is."""

    CLEAN = "clean"
    DOUBT = "doubt"  # nobody has to act: the next run looks at it again
    BAD = "bad"


class Status(IntEnum):
    """An exit status. Of several that hold, the first in this order counts."""

    tone: Tone
    words: str

    def __new__(cls, code: int, tone: Tone, words: str) -> Status:
        """Make a status of its number, tone and meaning."""
        status = int.__new__(cls, code)
        status._value_ = code
        status.tone, status.words = tone, words
        return status

    ERROR = 2, Tone.BAD, "usage or data error"
    NOTHING = 22, Tone.BAD, "nothing was measured or compared"
    REGRESSION = 10, Tone.BAD, "regression confirmed"
    BUILD_FAILED = 21, Tone.BAD, "a build failed"
    BENCHMARK_FAILED = 20, Tone.BAD, "a benchmark failed"
    SUSPECT = 11, Tone.DOUBT, "suspect: neither confirmed nor ruled out"
    ENVIRONMENT = 30, Tone.DOUBT, "the environment changed"
    CLEAN = 0, Tone.CLEAN, "clean"
    WRONG = 1, Tone.BAD, "an implementation is wrong"
    INTERRUPTED = 130, Tone.BAD, "Ctrl-C ended it"


# A gate has no BUILD_FAILED: a commit that does not build leaves nothing to compare
OF_GATES = (Status.ERROR, Status.NOTHING, Status.REGRESSION, Status.BENCHMARK_FAILED, Status.SUSPECT, Status.CLEAN)
OF_NIGHTS = (*OF_GATES, Status.BUILD_FAILED, Status.ENVIRONMENT)


def first(holds: Mapping[Status, bool]) -> Status:
    """Return the first status that holds, CLEAN where none does."""
    return next((status for status in Status if holds.get(status)), Status.CLEAN)


def tone(code: int) -> Tone:
    """Return how bad an exit status is. One that no command of ours returns is bad."""
    return next((status.tone for status in Status if status == code), Tone.BAD)


def in_help(statuses: Collection[Status]) -> str:
    """Return the last paragraph of a command's help."""
    return f"exit status: {'; '.join(f'{status} {status.words}' for status in sorted(statuses))}"
