"""What changed, by how much, between which commits, and whose doing it was: for pages, nights, gates and exports.

May import `past` and the rooms below it. Histories and change points need scipy.

change_points.py  change points of series, stored in the cache
controls.py       what the controls share, taken out of change points
history.py        histories of series, from which verdicts are made
verdicts.py       whether a series changed between two commits: what every page asks
moves.py          what moved, by how much, between which commits, whose doing: what nights ask
silence.py        series that vanished, machines gone quiet or renamed, series begun anew
"""
