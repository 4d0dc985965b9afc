"""Every recorded series as columns, adjusted and cached: the only way to read the past.

May import `stats`, `results` and the rooms below them. A node without scipy can open it.

past.py      open the past. Query series, commits, sessions
reading.py   bring the cache up to date with a results directory
packing.py   a results file as arrays
cache.py     the SQLite file of these arrays and of what is computed from them
layout.py    all series as columns in a scratch file
adjusted.py  correct the times of a layout for machine noise, and for what the sessions of a fleet differ by
columns.py   one series as columns, and which of its values can be compared
frames.py    tables of values, rounds and machines as data frames. `kv export`: Parquet, CSV, OpenMetrics
"""
