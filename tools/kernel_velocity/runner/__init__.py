"""Build commits and have asv measure them.

This room holds `kv track` and `kv peaks`, and everything that starts a measuring process. It may import the harness,
the leaves, results, series and roofline. A node that only measures imports it without scipy, orjson or Jinja2.

    asv.py           run asv or another child process, read asv's output, name the machine
    backfill.py      --every: every n-th commit of a range, then halves where a test case changed
    checks.py        requirements and shared arguments of the commands that measure, --lock-clocks
    doctor.py        `kv doctor`: what is here, what will be n/a and why, what to run first
    environment.py   asv's environment of a commit: build, cache, switch
    fingerprint.py   facts of the machine and of a build, hashes of kernels' machine code
    host.py          torch, compiler, device, variables of a measuring process, `kv report` in a process of its own
    peaks.py         `kv peaks`, and the process that measures the ceilings
    report.py        the tables and lines that `kv track` prints
    select.py        the series to measure, and which of them are complete
    session.py       one run: build, measure, resume, ingest, publish, and what is recorded of its commits
    track.py         `kv track`
"""
