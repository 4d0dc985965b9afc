"""The recorded past as files: asv's results, the telemetry beside them, and git. Reads and ingests them.

May import suite and the rooms below it. Runs on a node without scipy, orjson and Jinja2.

records.py      what is read: benchmarks, machines, results files, commits
reader.py       read asv's results directory, and the telemetry beside each file
lines.py        telemetry files: rounds, failures and sessions, a JSON line each. The spool
sessions.py     the line of a session: facts of machine and wheel, and how they change
measurement.py  one measurement of a commit's rounds: value, interval, footnotes
identity.py     the series that a measurement belongs to
ingest.py       kv ingest: move finished rounds beside asv's results, and write asv's values from them
programs.py     what files of Google Benchmark and nvbench say
foreign.py      record that as series of the history
asv_file.py     one results file of asv, to read and to change, and asv's file of machines
blocks.py       what a machine of a fleet measured in one session, and its anchors
git.py          the repository: commits, ranges, the working tree as a commit
"""
