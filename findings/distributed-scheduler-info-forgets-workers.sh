#!/usr/bin/env bash
# distributed 2026.8.0: client.scheduler_info(n_workers=-1) now and then returns no workers, while all of them are there
#
# Expected: -1 means all workers, so a client of a cluster of two workers that nobody touches always gets two.
# Observed: some calls of many thousands get 0. The client refreshes the same attribute by a periodic callback, whose
#   default is to ask for no workers. Its answer can arrive between that of the call and the call's return.
# Why it matters: whoever watches by scheduler_info whether a worker is still there (as jobs of a batch queue are watched)
#   now and then sees all of them gone, and gives up tasks that run. The chance is one in some ten thousand calls; it
#   grows with the load and the interval distributed.client.scheduler-info-interval, 2 s, which this script shortens.
#   Ask the scheduler itself, as Client.wait_for_workers does: client.sync(client.scheduler.identity, n_workers=-1).
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q distributed==2026.8.0 dask==2026.8.0
cd "$work"

cat > watch.py <<'PYTHON'
import sys
from collections import Counter

import dask
from distributed import Client, LocalCluster

dask.config.set({"distributed.client.scheduler-info-interval": "5ms"})
options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
with LocalCluster(**options) as cluster, Client(cluster) as client:
    client.wait_for_workers(2)
    by_info, by_identity = Counter(), Counter()
    for _ in range(3000):
        by_info[len(client.scheduler_info(n_workers=-1)["workers"])] += 1
        by_identity[len(client.sync(client.scheduler.identity, n_workers=-1)["workers"])] += 1
print(f"workers of scheduler_info: {dict(by_info)}, of the scheduler's identity: {dict(by_identity)}")
sys.exit(set(by_info) != {0, 2} or set(by_identity) != {2})
PYTHON
"$work/venv/bin/python" watch.py
