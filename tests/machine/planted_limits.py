"""What this machine can do at most, as a test says: measuring it takes seconds, and differs from hour to hour."""

from kernel_velocity.engine.reported import machine_id, write_figure
from kernel_velocity.machine import limits

PLENTY = 1e18  # B/s or FLOP/s: a limit that refuses nothing
_PROGRAM = limits._PROGRAM  # of processes that no test plants anything in


def plant_limits(monkeypatch, **rates):
    """Let fresh processes of this one find these limits, B/s and FLOP/s, and PLENTY of all others."""
    program = f"import json, sys; names = json.loads(sys.argv[1])[1]; found = {rates!r}"
    program += f"; print(json.dumps({{name: found.get(name, {PLENTY!r}) for name in names}}))"
    monkeypatch.setattr(limits, "_PROGRAM", program)


def plant_measured_limits(clone):
    """Let rounds in a clone find limits of this CPU that refuse nothing, as if the rounds before had measured them."""
    import torch

    for name in limits.MARGINS:
        path = clone / ".asv/cache/limits" / f"{machine_id('cpu', torch.__version__, name, _PROGRAM)}.json"
        write_figure(path, {"rate": PLENTY})
