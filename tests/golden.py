"""Golden files: the text that a part of the product had when it was last looked at, and accepted.

A mismatch leaves `<name>.actual` beside the golden file. Look at the difference. `pytest --accept-golden` accepts it.
"""

from pathlib import Path


def check_golden(path: Path, text: str, *, accept: bool) -> None:
    """Compare `text` with the golden file at `path`. With `accept`, write it."""
    actual = path.with_name(path.name + ".actual")
    if accept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        actual.unlink(missing_ok=True)
        return
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        actual.parent.mkdir(parents=True, exist_ok=True)
        actual.write_text(text, encoding="utf-8")
        raise AssertionError(f"differs from {path}; see {actual.name} beside it; accept with pytest --accept-golden")
    actual.unlink(missing_ok=True)
