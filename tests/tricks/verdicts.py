"""Run a trick, or its honest twin, and say what found it."""

from __future__ import annotations

from pathlib import Path

from tests.tricks import cuda
from tests.tricks.honest_code import Honest
from tests.tricks.running import Outcome, comparison, compiled, rounds, written
from tests.tricks.table import CUDA_EXTENT, DEFINITION, EXTENT, NATIVE, Trick

ON_CUDA = DEFINITION.replace(f"{EXTENT}", f"{CUDA_EXTENT}").replace('"cpu"', '"cuda"')
IMPORT = "import sys; sys.path.insert(0, {!r}); from solution import ours as function\n{}"


def run(folder: Path, trick: Trick, *, is_trick: bool) -> Outcome:
    """Run a trick in a folder: its rounds, or a comparison. `is_trick` false runs the same code without the trick."""
    what = trick.definition or DEFINITION
    if trick.form == "native":
        compiled(folder, trick.source, trick=is_trick)
        return rounds(written(folder, what + NATIVE.format(trick.arguments), trick=is_trick), trick.rounds)
    if trick.form == "python":
        written(folder, trick.source, trick=is_trick, name="solution.py")
        definition = IMPORT.format(str(folder), what)
        return rounds(written(folder, f"{definition}    ours = function\n", trick=is_trick), trick.rounds)
    if trick.form == "cuda":
        written(folder, trick.source, trick=is_trick, name="solution.py")
        definition = IMPORT.format(str(folder), ON_CUDA)
        library = (cuda.LIBRARY, cuda.built())
        path = written(folder, f"{definition}    ours = function\n", trick=is_trick)
        return rounds(path, trick.rounds, device="Cuda", around="tests.tricks.cuda", environ=[library])
    definition = written(folder, what, trick=is_trick)
    if trick.source.lstrip().startswith("#"):
        return comparison(definition, compiled(folder, trick.source, trick=is_trick, name="ours.so"))
    return comparison(definition, written(folder, trick.source, trick=is_trick, name="ours.py"))


def finding(trick: Trick, outcome: Outcome) -> str | None:
    """Return what found a trick: the part of a reason or flag that its entry names. None: it passes."""
    texts = (outcome.refused, *outcome.suspicious)
    return next((part for part in trick.by if any(part in text for text in texts)), None)


def run_honest(folder: Path, honest: Honest) -> Outcome:
    """Run one round of an honest benchmark in a folder."""
    if honest.source:
        compiled(folder, honest.source, trick=False)
    return rounds(written(folder, honest.definition, trick=False), environ=honest.environ)
