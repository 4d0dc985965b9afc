"""Two commits measured in turns: `kv gate`, `kv bisect`, and confirming what a night suspects.

Imports `findings`, `runner` and the rooms below them.

session.py        measures two commits in turns by asv and records their rounds
rounds.py         reads, pairs, adjusts and judges those rounds
confirm.py        measures more and more rounds until every series has an answer
bisection.py      the search for the commit that made a series slower
gate.py           `kv gate`
gate_report.py    the report of a gate: exit status, text, what it writes to files
bisect.py         `kv bisect`
"""
