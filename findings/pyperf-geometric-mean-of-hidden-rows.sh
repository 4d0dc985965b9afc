#!/usr/bin/env bash
# pyperf 2.11.0: compare_to hides every benchmark as not significant, and reports "Geometric mean: 1.41x slower"
#
# Expected: the last line sums up the rows above it, or counts what is not significant as 1.
# Observed: one outlier in one of two benchmarks. Both rows are hidden as not significant. The geometric mean is of the
#   hidden ratios, as measured, so it is the outlier's.
# Why it matters: the geometric mean is the figure that goes into titles of changes and into gates on a whole suite.
#   With few runs it moves by what the same tool just refused to call a change. Compute it from significant
#   rows or from medians, and give an interval.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q pyperf==2.11.0

cat > "$work/record.py" <<'PYTHON'
import sys

import pyperf


def benchmark(name, seconds):
    metadata = {"name": name, "unit": "second"}
    return pyperf.Benchmark([pyperf.Run([value], metadata=metadata, collect_metadata=False) for value in seconds])


def dump(path, **benchmarks):
    pyperf.BenchmarkSuite([benchmark(name, seconds) for name, seconds in benchmarks.items()]).dump(path)


dump(f"{sys.argv[1]}/old.json", softmax=[1.00, 1.01, 1.02, 1.03], layer_norm=[2.00, 2.01, 2.02, 2.03])
dump(f"{sys.argv[1]}/new.json", softmax=[1.00, 1.01, 1.02, 5.09], layer_norm=[2.00, 2.01, 2.02, 2.03])
PYTHON
"$work/venv/bin/python" -c 'import pyperf; print("pyperf", pyperf.__version__)'
"$work/venv/bin/python" "$work/record.py" "$work"
"$work/venv/bin/python" -m pyperf compare_to "$work/old.json" "$work/new.json" | tee "$work/report"
if ! grep -q "hidden because not significant (2)" "$work/report" ||
    ! grep -q "Geometric mean: 1.41x slower" "$work/report"; then
    echo "no longer as stated"
    exit 1
fi
