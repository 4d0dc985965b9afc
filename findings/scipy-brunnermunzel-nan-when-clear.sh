#!/usr/bin/env bash
# scipy 1.17.1: the Brunner-Munzel test answers NaN where two samples do not overlap
#
# Expected: the smallest p value that so many rounds allow, as the Mann-Whitney test gives.
# Observed: 4 old times and 4 new ones, all new ones slower: statistic inf, p NaN, with a RuntimeWarning on stderr.
#   A single overlapping value makes it a number. distribution="normal" gives 0.
# Why it matters: this test is the textbook advice for samples of unequal spread. `p < 0.05` is False for NaN, so a gate
#   lets the clearest regression pass, and only that. Quiet machines with few rounds are where it happens. Treat a
#   statistic of inf as separation, or take a permutation test.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q scipy==1.17.1 numpy==2.4.6

cat > "$work/separate.py" <<'PYTHON'
import math
import warnings

import scipy
from scipy.stats import brunnermunzel, mannwhitneyu

warnings.simplefilter("ignore")
old = [10.1, 10.2, 10.3, 10.4]
clear = [20.1, 20.3, 20.5, 20.7]
overlapping = [10.35, 20.3, 20.5, 20.7]

print("scipy", scipy.__version__)
p = {}
for name, new in ("clear", clear), ("overlapping", overlapping):
    p[name] = brunnermunzel(old, new).pvalue
    print(f"{name}: Brunner-Munzel p {p[name]:.2g}, Mann-Whitney p {mannwhitneyu(old, new).pvalue:.2g}")
print(f"clear: Brunner-Munzel finds p < 0.05: {bool(p['clear'] < 0.05)}")
assert math.isnan(p["clear"]) and p["overlapping"] < 0.05, "no longer as stated"
assert mannwhitneyu(old, clear).pvalue < 0.05, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/separate.py"
