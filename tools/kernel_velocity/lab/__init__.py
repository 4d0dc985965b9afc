"""Are our methods any good: stopping rules, detectors of change points, false alarms. ``kv lab <step>``."""

STEPS = {  # step -> its module, and what it does
    "record": ("lab.record", "record raw traces of every kernel, a file for each process"),
    "replay": ("lab.replay", "replay every stopping rule on recorded and synthetic traces"),
    "spread": ("lab.spread", "measure one commit in several sessions; print how far apart they are, raw and adjusted"),
    "false-alarms": (
        "lab.false_alarms",
        "estimate the false-alarm rate and the power from repeated sessions of one commit",
    ),
    "score-detectors": (
        "lab.detectors",
        "how often detectors of change points report a change that is none, and what they miss: asv's and ours",
    ),
}
