"""What asv needs before it measures: a name for the machine, and our environment."""

from __future__ import annotations

from asv import util
from asv.config import Config
from asv.environment import EnvironmentUnavailable, get_environments
from asv.machine import Machine, MachineCollection

from kernel_velocity.errors import UsageError
from kernel_velocity.runner.environment import HostTorch

# Of A/B runs and of sessions of identical code while they measure. Named here and not imported from them: a node that
# only measures has no scipy.
MEASURING_FOLDERS = ("kv-ab", "kv-sessions")
# Folders of results/ that are no machine's: those, findings, recorded sessions, the journals of nights.
OWN_FOLDERS = frozenset({*MEASURING_FOLDERS, "findings", "sessions", "journals"})


def machine(name: str | None) -> str:
    """Return the name of this machine in the results; asv's file of machines gets an entry where it has none.

    Not by `asv machine --yes`: given a name, that records the name and nothing of the machine. An entry of that kind
    is completed.

    Raises:
        UsageError: asv's own name of the machine is that of a folder of ours in the results.
    """
    asked, name = name, name or Machine.get_unique_machine_name()
    try:
        known = MachineCollection.load(name)
    except util.UserError:
        known = {}
    recorded = str(known.get("machine", name))
    if recorded in OWN_FOLDERS and recorded != asked:
        raise UsageError(
            f"asv calls this machine {recorded!r}, which is a folder of our own in results/: name it, MACHINE=bench-2"
        )
    if "cpu" not in known:
        known = {**Machine.get_defaults(), "machine": name, **known}
        MachineCollection.save(name, known)
    return recorded


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
