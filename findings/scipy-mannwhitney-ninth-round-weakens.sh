#!/usr/bin/env bash
# scipy 1.17.1: a ninth round on both sides makes the p value of a Mann-Whitney test 2.7 times larger
#
# Expected: with every new time above every old one, each further round lowers p.
# Observed: 8 against 8 rounds p is 0.00016, 8 against 9 it is 0.00008, 9 against 9 it is 0.00041: method="auto" leaves
#   the exact distribution when both samples have more than 8 values, or when two values are equal. One tie in 8
#   against 8 gives 0.00093, six times as much. With method="exact", 9 against 9 is 0.00004.
# Why it matters: gates for many kernels divide 0.05 by their number. With 200 kernels the bound is 0.00025: 8 rounds
#   can fall below it, 9 cannot, however slow the kernel is. A clock with coarse ticks makes ties and does the same.
#   Name the method, and use a permutation test for ties (scipy's "exact" ignores them without a word).
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q scipy==1.17.1 numpy==2.4.6

cat > "$work/rounds.py" <<'PYTHON'
import scipy
from scipy.stats import mannwhitneyu


def p(olds, news, tie=False, method="auto"):
    old = [float(i) for i in range(olds)]
    new = [100.0 + i for i in range(news)]
    if tie:
        new[-1] = new[-2]
    return mannwhitneyu(old, new, method=method).pvalue


print("scipy", scipy.__version__)
eight, uneven, nine, tied = p(8, 8), p(8, 9), p(9, 9), p(8, 8, tie=True)
print(f"8 against 8: {eight:.2g}")
print(f"8 against 9: {uneven:.2g}")
print(f"9 against 9: {nine:.2g} (exact: {p(9, 9, method='exact'):.2g})")
print(f"8 against 8, two new times equal: {tied:.2g} (exact: {p(8, 8, tie=True, method='exact'):.2g})")
assert uneven < eight < 0.05 / 200 < nine < tied, "no longer as stated"
assert p(9, 9, method="exact") < uneven, "no longer as stated"
PYTHON
"$work/venv/bin/python" "$work/rounds.py"
