"""Two commits measured in turns: `kv gate`, `kv bisect`, `kv false-alarms`, and what a night suspects.

Imports `findings`, `runner` and the rooms below them.

session.py        measures two commits in turns by asv and records their rounds
rounds.py         reads, pairs, adjusts and judges those rounds
confirm.py        measures more and more rounds until every series has an answer
gate.py           `kv gate`
count_gate.py     `kv gate --counts`: what differs between two builds in counts, without a clock
gate_report.py    the report of a gate: exit status, text, what it writes to files
false_alarms.py   `kv false-alarms`: sessions of identical code, and how often tests call them different
bisect.py         `kv bisect`: the search for the commit that made a series slower
"""
