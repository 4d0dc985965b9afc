"""What asv needs before it measures: a name for the machine, and our environment."""

from __future__ import annotations

import os
from pathlib import Path

from asv import util
from asv.config import Config
from asv.environment import EnvironmentUnavailable, get_environments
from asv.machine import Machine, MachineCollection

from tools.asv_process import run_asv
from tools.environment import HostTorch
from tools.errors import UsageError


def machine(name: str | None) -> str:
    """Return the name of this machine in the results; asv's file of machines gets an entry where it has none.

    Raises:
        UsageError: asv cannot describe the machine.
    """
    try:
        found: str = MachineCollection.load(name or Machine.get_unique_machine_name())["machine"]
        return found
    except util.UserError:
        lines: list[str] = []
        named = [] if name is None else ["--machine", name]
        log_path = Path(".asv", "logs", "machine.log")
        status = run_asv(
            ["machine", "--yes", *named], root=Path(), environment=os.environ, log=log_path, on_line=lines.append
        )
        if status != 0:
            raise UsageError(
                f"asv cannot describe this machine: {lines[-1] if lines else status} (log: {log_path})"
            ) from None
        return name or Machine.get_unique_machine_name()


def environment_of(conf: Config) -> HostTorch:
    """Return the environment that asv.conf.json asks for.

    Raises:
        UsageError: it is not ours, or cannot be had here; the message says why.
    """
    if conf.environment_type != HostTorch.tool_name:
        raise UsageError(
            f"asv.conf.json: environment_type is {conf.environment_type!r}; `{HostTorch.tool_name}` is wanted"
        )
    found = [item for item in get_environments(conf, None, verbose=False) if isinstance(item, HostTorch)]
    if found:
        return found[0]
    try:  # asv passes over what is not available; asked directly, it says why
        (python,) = conf.pythons
        return HostTorch(conf, python, {}, {})
    except EnvironmentUnavailable as error:
        raise UsageError(str(error)) from None
