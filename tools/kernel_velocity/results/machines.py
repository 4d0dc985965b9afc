"""Read asv's file of machines, `~/.asv-machine.json`, which people edit.

asv itself ends with a traceback where the file is damaged, and asks for it again in every process. KV_MACHINES names
another file: machines of a cluster share a home directory, and asv names a machine by its entry as long as it is the
only one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from asv.machine import Machine, MachineCollection

from kernel_velocity.bounds import is_number
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import documents

FILE = "KV_MACHINES"  # variable
if os.environ.get(FILE):
    MachineCollection.get_machine_file_path = staticmethod(lambda: os.environ[FILE])

NAMES = tuple(name for name, _ in Machine.fields)  # of the facts that asv knows


def entry(name: str) -> dict[str, str]:
    """Return what the file says of a machine, {} where it says nothing. All of the file is checked, as asv reads it.

    Raises:
        UsageError: the file is no such file.
    """
    path = Path(MachineCollection.get_machine_file_path())
    if not path.exists():
        return {}
    try:
        machines = documents.read(path)
        _check(machines)
    except documents.DamagedError as error:
        raise UsageError(f"{path}: {error}; mend it, or remove it: asv then asks this machine again") from None
    here = {key: value for key, value in machines.items() if key != "version"}
    is_only = len(here) == 1 and name == Machine.get_unique_machine_name()
    facts = next(iter(here.values())) if is_only else here.get(name, {})
    return {key: str(value) for key, value in facts.items() if key in NAMES}


def complete(name: str, facts: dict[str, str]) -> None:
    """Write the facts of this machine that its entry lacks."""
    MachineCollection.save(name, {**Machine.get_defaults(), "machine": name, **facts})


def _check(machines: dict[str, Any]) -> None:
    if machines.get("version") != MachineCollection.api_version:
        raise documents.DamagedError(
            f"version: {MachineCollection.api_version} is wanted, got {str(machines.get('version'))[:60]!r}"
        )
    for name, facts in machines.items():
        if name == "version":
            continue
        if not isinstance(facts, dict):
            raise documents.DamagedError(f"{name[:60]!r}: an object is wanted, got {str(facts)[:60]!r}")
        for key, value in facts.items():
            if key in NAMES and not (isinstance(value, str) or is_number(value)):
                raise documents.DamagedError(f"{name[:60]!r}: {key}: a text is wanted, got {str(value)[:60]!r}")
        if facts and not facts.get("machine"):
            raise documents.DamagedError(f"{name[:60]!r}: machine: the name of the machine is wanted, got nothing")
