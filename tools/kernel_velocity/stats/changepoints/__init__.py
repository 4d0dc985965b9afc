"""Change points of a series of log values.

detector.py  the change points of series, one by one or many at once
segment.py   cuts series into levels at the least cost
young.py     steps of the newest values and of short series, which the detector cannot judge
doubt.py     which change points the links of sessions do not explain
values.py    values in, change points out
noise.py     scales, and a test of two stretches
"""
