"""Change points of a series of log values.

search.py    the steps of series: what their levels show, at any age, and which of them links do not explain
values.py    values in, change points out
noise.py     scales, and a test of two stretches
"""
