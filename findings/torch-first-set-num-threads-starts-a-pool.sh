#!/usr/bin/env bash
# torch 2.13.0, CPU: the first call of set_num_threads decides whether a second pool of threads is ever started
#
# Expected: set_num_threads(4) says how many threads a later operation uses, and starts none. Whoever calls it twice
#   gets what the last call says.
# Observed: the first call of a process starts 3 threads at once, before any operation. Operations do not use them:
#   the first one starts 3 more, of OpenMP, so that a process "with 4 threads" has 7. After a first call with 1 a later
#   one with 4 starts none, the first operation starts its 3, and the process has 4. get_num_threads says 4 in both.
# Why it matters: a process that sets the number of threads can no longer fork safely, although nothing was computed
#   (forked workers, `os.fork` of Python 3.12 warns). A harness that counts threads to see whether a kernel left some
#   running counts three more or not by the history of a setting.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6

cat > "$work/threads.py" <<'PYTHON'
import os
import sys

import torch


def count():
    return len(os.listdir("/proc/self/task"))


counts = [count()]
for wanted in map(int, sys.argv[1:]):
    torch.set_num_threads(wanted)
    counts.append(count())
values = torch.ones(1 << 22)
(values + 1).sum()
print(*counts, count(), torch.get_num_threads())
PYTHON

export OMP_NUM_THREADS=4 MKL_NUM_THREADS=4 OPENBLAS_NUM_THREADS=1
at_once=$("$work/venv/bin/python" "$work/threads.py" 4)
after_one=$("$work/venv/bin/python" "$work/threads.py" 1 4)
echo "threads after the import, after each call, after an operation; get_num_threads"
echo "4:    $at_once"
echo "1, 4: $after_one"
test "$at_once" = "1 4 7 4" && test "$after_one" = "1 1 1 4 4" || { echo "no longer as stated"; exit 1; }
