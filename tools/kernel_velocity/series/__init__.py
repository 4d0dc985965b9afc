"""Every recorded series as columns, adjusted and cached: the only way to read the past.

May import harness, results, stats and the leaves. A node without scipy can open the past. Histories and change points
need scipy.

past.py           open the past. Query series, commits, sessions, change points
reading.py        bring the cache up to date with a results directory
packing.py        a results file as arrays
cache.py          the SQLite file of these arrays and of what is computed from them
layout.py         all series as columns in a scratch file
adjusted.py       correct the times of a layout for machine noise
linked.py         take out what the sessions of a fleet differ by
columns.py        one series as columns: which values can be compared, which series are worth a trend
change_points.py  change points of series, stored in the cache
controls.py       what the controls share, taken out of change points
moves.py          what moved, by how much, between which commits, and whose doing it is: for pages and nights
verdicts.py       whether a series changed between two commits: what every page asks
history.py        histories of series, from which verdicts are made
frames.py         tables of values, rounds and machines: data frames, and kv export (Parquet, CSV, OpenMetrics)
silence.py        series that vanished, machines gone quiet or renamed, series begun anew
"""
