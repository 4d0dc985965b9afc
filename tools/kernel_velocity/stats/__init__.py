"""Mathematics only: adjusting, speed-ups, tests of two samples, change points. No file, no clock, no commit.

May import results (its data types) and the rooms below it.

adjust.py         slopes of a series on gauges and controls, from how much of a history
adjust_series.py  adjusts recorded series: fits on their first commits, adjusted times of all
two_samples.py    Mann-Whitney, Hodges-Lehmann, Welch, and the floor between sessions
sequential.py     the sequential test of an A/B session
link.py           link sessions by commits that both measured
speedup.py        times, speed-ups with errors, figures and the shape of samples
changepoints/     the detector of change points
"""
