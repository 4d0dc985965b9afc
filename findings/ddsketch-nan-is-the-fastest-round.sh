#!/usr/bin/env bash
# ddsketch 3.0.1: a NaN is accepted, and stands in the quantiles as a measurement of 0
#
# Expected: add(nan) raises, as add(inf) does (OverflowError), or the NaN is left out.
# Observed: count goes up, the mean becomes NaN, and quantiles answer as if a 0 had been added: the 20% quantile of
#   nan, nan, 1, 1, 1 is 0. The minimum that the sketch keeps is still 1.
# Why it matters: sketches are merged over machines and nights, and the raw values are gone. A failed round that was
#   stored as NaN becomes the fastest one ever and draws the median down. No later look at the sketch tells it
#   from a true 0, except that the mean is lost. Drop NaN before add, and watch that the mean is finite.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q ddsketch==3.0.1

cat > "$work/quantiles.py" <<'PYTHON'
import math
from importlib import metadata

from ddsketch import DDSketch


def sketch(values):
    result = DDSketch()
    for value in values:
        result.add(value)
    return result


print("ddsketch", metadata.version("ddsketch"))
low_quantiles = {}
for values in [1.0, 1.0, 1.0], [math.nan, math.nan, 1.0, 1.0, 1.0]:
    result = sketch(values)
    low, median = (result.get_quantile_value(share) for share in (0.2, 0.5))
    print(f"{values}: count {result.count:g}, mean {result.avg}, 20% quantile {low:.2f}, median {median:.2f}")
    low_quantiles[len(values)] = low
try:
    sketch([math.inf])
except OverflowError as error:
    print("inf:", error)
else:
    raise SystemExit("no longer as stated")
assert low_quantiles[3] > 0.98 and low_quantiles[5] == 0, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/quantiles.py"
