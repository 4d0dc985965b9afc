"""Whether the native library that lies in a source tree was built from what the tree holds now.

Who edits a kernel and compares it without `make build` would time, and call right, the code of before.
"""

from __future__ import annotations

from pathlib import Path

from kernel_velocity.errors import UsageError

LIBRARY = Path("_native", "libkernel_velocity.so")


def check(kernels: Path, kernel: str) -> None:
    """Check the library in a folder of kernels against the sources of one of them, and what these may include.

    An installed wheel has no sources, and a tree without a library says so itself when that is loaded.

    Raises:
        UsageError: a source was changed after the library was built.
    """
    library = kernels / LIBRARY
    if not library.is_file():
        return
    own = [
        path for folder in (kernel, "_native") for kind in ("*.cpp", "*.cu") for path in (kernels / folder).glob(kind)
    ]
    sources = [*own, *kernels.glob("*/*.h")]
    newest = max(sources, key=lambda path: path.stat().st_mtime_ns, default=library)
    if newest.stat().st_mtime_ns > library.stat().st_mtime_ns:
        raise UsageError(
            f"{newest.relative_to(kernels.parent)} was changed after the native library was built: run `make build`, "
            "or what is compared is the code of before"
        )
