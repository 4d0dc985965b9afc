#!/usr/bin/env bash
# tdigest 0.5.2.2: the first quartile of the times 1, 1, 1, 1, 9 is -1.4
#
# Expected: a quantile between the smallest and the largest value, for few values close to the exact one (here 1).
# Observed: equal values join into one centroid. Between centroids the line goes on at the slope to the outlier: the 5%
#   point is -4.6, the quartiles are -1.4 and 6.6. With distinct values the 5% point of 1.0, 1.1, 1.2, 1.3, 9.0 is
#   0.975, still less than each of them.
# Why it matters: clocks with coarse ticks, and counts, repeat values, and a slow outlier is the normal case. This is
#   where a quantile ought to be robust. A negative time breaks a log axis and a ratio. Where rounds are few,
#   store them all. Else clamp to the minimum and maximum, which must be stored beside the digest.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q tdigest==0.5.2.2

cat > "$work/quartiles.py" <<'PYTHON'
from importlib import metadata

from tdigest import TDigest

print("tdigest", metadata.version("tdigest"))
for times in [1.0, 1.0, 1.0, 1.0, 9.0], [1.0, 1.1, 1.2, 1.3, 9.0]:
    digest = TDigest()
    for time in times:
        digest.update(time)
    low, first, third = (digest.percentile(percent) for percent in (5, 25, 75))
    print(f"{times}: 5% {low:.3f}, quartiles {first:.3f} and {third:.3f}")
    assert low < min(times), "no longer as stated"
    if times[1] == 1.0:
        assert first < 0 and third > 6, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/quartiles.py"
