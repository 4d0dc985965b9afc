"""What this machine can do at most, as a test says: measuring it takes seconds, and differs from hour to hour."""

from kernel_velocity.machine import limits

PLENTY = 1e18  # B/s or FLOP/s: a limit that refuses nothing


def plant_limits(monkeypatch, **rates):
    """Let fresh processes of this one find these limits, B/s and FLOP/s, and PLENTY of all others."""
    program = f"import json, sys; names = json.loads(sys.argv[1])[1]; found = {rates!r}"
    program += f"; print(json.dumps({{name: found.get(name, {PLENTY!r}) for name in names}}))"
    monkeypatch.setattr(limits, "_PROGRAM", program)
