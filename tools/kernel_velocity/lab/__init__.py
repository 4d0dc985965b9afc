"""Are our methods any good: stopping rules, detectors of change points, false alarms. ``kv lab <step>``.

May import the rooms up to nightly and site. No room imports it.

record.py           kv lab record: raw traces of every kernel
replay.py           kv lab replay: every stopping rule on the same traces, as tables
noise.py            synthetic traces: families of noise, and mixtures of them
sessions.py         sessions of identical code: measured, read, adjusted
sharing.py          kv lab sharing: series that share a process against series in processes of their own
spread.py           kv lab spread: how far apart sessions are
links.py            kv lab links: values of two sessions, linked by anchors
false_alarms.py     kv lab false-alarms: how often a test calls them different
detectors.py        kv lab detectors: the tables
scoring.py          plays histories to detectors, and counts
contenders.py       the detectors that are compared
true_night.py       plays the judging code of nightly to simulated machines
histories.py        noise of a history, and files of real series
"""

STEPS = {  # step -> its module, and what it does
    "record": ("lab.record", "record raw traces of every kernel, a file for each process"),
    "replay": ("lab.replay", "replay every stopping rule on recorded and synthetic traces"),
    "spread": ("lab.spread", "measure one commit in several sessions and print their spread, raw and adjusted"),
    "sharing": ("lab.sharing", "compare series that share a process with series in processes of their own"),
    "false-alarms": (
        "lab.false_alarms",
        "estimate the false-alarm rate and the power from repeated sessions of one commit",
    ),
    "links": ("lab.links", "estimate how wrong values of two sessions are when anchors link them"),
    "detectors": (
        "lab.detectors",
        "count false alarms and misses of change-point detectors, ours and others', and of nightly runs",
    ),
}
