"""Change points of a series of log values.

detector.py  the change points of series, one by one or many at once, and which of them links do not explain
young.py     steps of new values and short series, which the detector cannot judge, and how they age
values.py    values in, change points out
noise.py     scales, and a test of two stretches
"""
