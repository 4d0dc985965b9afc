#!/usr/bin/env bash
# pytest-benchmark 5.3.1: a run that --benchmark-compare-fail rejects is saved, and is the next run's baseline
#
# Expected: with --benchmark-autosave, a run that fails the gate is not stored as a baseline, or the same gate fails
#   again until the slowdown is repaired.
# Observed: a kernel that takes twice as long fails once (exit status 1). The same command right after it passes (0),
#   because a bare --benchmark-compare takes the newest file, and that is the rejected one.
# Why it matters: a pipeline that retries a failed job turns a regression green without a change. Steps below the limit
#   add up in the same way: each run is compared with the one before. Save in another command than the one that gates,
#   only after it passed, and name the baseline: --benchmark-compare=NUMBER.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q pytest-benchmark==5.3.1 pytest==9.2.0

# A clock that advances by STEP seconds at each reading makes every call take exactly that long.
cat > "$work/steps.py" <<'PYTHON'
import os

now = 0.0


def clock():
    global now
    now += float(os.environ["STEP"])
    return now
PYTHON
cat > "$work/test_kernel.py" <<'PYTHON'
def test_kernel(benchmark):
    benchmark.pedantic(lambda: None, rounds=5, iterations=1)
PYTHON

bench() { # STEP, then further options
    step=$1
    shift
    (cd "$work" && STEP=$step PYTHONPATH=. venv/bin/python -m pytest -q test_kernel.py \
        --benchmark-timer=steps.clock --benchmark-autosave "$@" > log 2>&1) || return $?
}
"$work/venv/bin/python" -c 'import pytest_benchmark; print("pytest-benchmark", pytest_benchmark.__version__)'
gate="--benchmark-compare --benchmark-compare-fail=median:10%"
bench 0.001
statuses=
for step in 0.001 0.002 0.002; do
    status=0
    # shellcheck disable=SC2086 # two options
    bench "$step" $gate || status=$?
    echo "$step s a call: exit status $status"
    statuses="$statuses $status"
done
test "$statuses" = " 0 1 0" || { echo "no longer as stated"; exit 1; }
