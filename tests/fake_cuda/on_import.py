"""What a Python runs at its start to see the fake device: `sitecustomize.py` beside a PyTorch imports this.

PyTorch and the kernels get it when they are imported, so that a process that needs neither costs nothing. NVML's
binding is tests/engine/pretend_nvml.py. The library of guard.cpp lies beside this file.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
NVML = HERE.parent / "engine" / "pretend_nvml.py"


class _Finder(MetaPathFinder):
    """Finds what the others find, and plants the fake behind it."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        if name == "pynvml":
            return spec_from_file_location(name, NVML)
        if name not in ("torch", "kernels"):
            return None
        sys.meta_path.remove(self)
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_plant(module: ModuleType) -> None:
            execute(module)
            import torch  # noqa: F401 - the kernels' entry points compute by it

            from tests.fake_cuda import plant

            plant.plant_in_torch(HERE) if name == "torch" else plant.plant_in_kernels()

        loader.exec_module = execute_and_plant
        return spec


def install() -> None:
    """Have every import of this process look here first."""
    sys.meta_path.insert(0, _Finder())
