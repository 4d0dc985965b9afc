"""What changed, by how much, between which commits, and whose doing it was: for pages, nights, gates and exports.

May import `past` and the rooms below it. Histories and change points need scipy.

change_points.py  change points of series, stored in the cache
controls.py       what the controls share, taken out of change points
history.py        histories of series, from which verdicts are made
unsteady.py       steps such as controls make by themselves, which may be of no commit
verdicts.py       whether a series changed between two commits: what every page asks
events.py         changes of a series with what ended each: a revert is no change of its own
ranges.py         which commits can have caused a change: for pages, nights and findings
moves.py          what moved, by how much, between which commits, whose doing: what nights ask
silence.py        series that vanished, machines gone quiet or renamed or that may be one, series begun anew
"""
