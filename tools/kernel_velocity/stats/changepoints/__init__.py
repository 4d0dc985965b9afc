"""Change points of a series of log values.

vote.py         the change points of a series: the vote of three detectors
pelt.py         PELT, and Yuen's test
edivisive.py    windowed E-divisive, and t tests
windows.py      two windows side by side
screen.py       does the newest point look unlike those before it
drift.py        slow drift, which no detector of steps sees
values.py       values in, change points out
noise.py        scales, tests of two stretches, backward elimination
incremental.py  what is kept of a series between reports
many.py         many series at once, from what is kept of them
"""
