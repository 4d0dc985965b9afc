"""Whether the series of a round share a process, and what none hands on to the next in it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Mapping
from typing import Any

SETTING = "KV_ISOLATE"


def is_shared(environ: Mapping[str, str], device: str) -> bool:
    """Return whether the series of a round share a process: those of "cuda", unless KV_ISOLATE says it for all.

    A GPU's context and libraries take longer than the samples. On a CPU times can differ in a shared process.

    Raises:
        ValueError: KV_ISOLATE is neither 0 nor 1.
    """
    text = environ.get(SETTING) or ""
    if text not in ("", "0", "1"):
        raise ValueError(f"{SETTING}: got {text!r}; wanted 1 (a process for each series) or 0 (one for all of a round)")
    return text == "0" or (text == "" and device == "cuda")


class State:
    """What series could hand on to each other in one process, as it was when the process began."""

    def __init__(self) -> None:
        self._environ = dict(os.environ)
        gc.freeze()  # what is there now stays: a collection that looked at all of torch would take .1 s
        self._seed = sys.modules["torch"].initial_seed() if "torch" in sys.modules else None

    def put_back(self) -> None:
        """Restore the environment and torch's random numbers, and give back compiled code and memory."""
        os.environ.clear()
        os.environ.update(self._environ)
        if "torch._dynamo" in sys.modules:
            sys.modules["torch._dynamo"].reset()
        gc.collect()
        if self._seed is not None:
            torch: Any = sys.modules["torch"]
            torch.manual_seed(self._seed)  # of all devices
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
        with contextlib.suppress(AttributeError):  # no glibc
            ctypes.CDLL(None).malloc_trim(0)
