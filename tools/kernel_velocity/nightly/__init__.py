"""A night: measure what is new, judge it against the history, confirm what moved, write the findings.

Imports `ab`, `findings`, `runner`, `verdict` and the rooms below them.

command.py     `kv nightly`: the night from its start to its exit status
measure.py     the measuring half: choose, build, measure, ingest, what lacks a value. The journal that resumes a night
conclude.py    the judging half: history, suspicions, re-runs, findings, verdict
judge.py       the suspicions of a night, and its findings once they were measured again
confirm.py     measures moves again, in turns, bisects them, and makes findings
"""
