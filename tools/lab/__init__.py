"""Are our methods any good: sample sizes, detectors of change points, judges. ``python -m lab <step>``.

For the authors, from the root of a checkout: no wheel has it. May import everything, and nothing imports it.

__main__.py         the steps
samplings.py        other tests and sample sizes on sessions of identical code
detectors.py        the tables of detectors of change points
scoring.py          plays histories to detectors, and counts
contenders.py       the detectors that are compared
platforms.py        plays planted histories and noise to the verdicts of pages
true_night.py       plays the judging code of nightly to simulated machines
histories.py        noise of a history, and files of real series
judges.py           the judges of public problem sets, and ours, on right and wrong solutions
"""
