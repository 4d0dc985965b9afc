"""The asv suite, always of HEAD: one module per kernel, and `device.py` for the machine.

Importing it has no effect outside asv. Inside (asv_runner is loaded, and asv has set its variables) our benchmark types
are put before asv's own, which would claim every `time_*`, and the server that forks the rounds imports torch once.
"""

import importlib.util
import os
import sys


def _inside_asv() -> bool:
    return "asv_runner.benchmarks" in sys.modules and "ASV_PROJECT" in os.environ


def _register() -> None:
    from asv_runner.benchmarks import benchmark_types  # noqa: PLC0415

    from kernel_velocity.harness.asv_type import ErrorBenchmark, FigureBenchmark, RoundBenchmark  # noqa: PLC0415

    for kind in (ErrorBenchmark, FigureBenchmark, RoundBenchmark):
        if kind not in benchmark_types:
            benchmark_types.insert(0, kind)
    if "run_server" in sys.argv and importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")  # 1.3 s, paid once per launch instead of once per round


if _inside_asv():
    _register()
