"""The package under test: fused kernels in C++ (CPU) and CUDA, one folder each, called as `kernels.<name>(...)`.

Every folder that does not begin with an underscore is a kernel, and adding one touches no other file. A kernel's
module, with its `bind` and `SUPPORTS`, is `importlib.import_module("kernels.<name>")`, for `kernels.<name>` is the
function.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

from kernels._native.library import build_info, cpu_isa, cuda_status

KERNELS: tuple[str, ...] = tuple(
    sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg and module.name[0] != "_")
)

__all__ = ["KERNELS", "build_info", "cpu_isa", "cuda_status"]

# Note: all kernels are imported before their functions are bound. Binding on first access instead was tried and
# returns the submodule at the second access: the import system sets kernels.<name> to the module by itself.
_MODULES = {name: import_module(f"kernels.{name}") for name in KERNELS}
globals().update({name: getattr(module, name) for name, module in _MODULES.items()})


def __getattr__(name: str) -> Any:
    """Explain a kernel that does not exist, at this commit or at all."""
    raise AttributeError(f"kernels has no {name!r}; the kernels of this build are {', '.join(KERNELS)}")
