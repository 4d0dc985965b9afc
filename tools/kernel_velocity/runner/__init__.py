"""Build commits and have asv measure them.

This room holds `kv track` and `kv peaks`, and everything that starts a measuring process. It may import the harness,
the leaves, results, series and roofline. A node that only measures imports it without scipy, orjson or Jinja2.

    asv.py           run asv or another child process, read asv's output, name the machine
    backfill.py      --every: every n-th commit of a range, then halves where a test case changed
    checks.py        requirements and shared arguments of the commands that measure, --lock-clocks
    code_identity.py  hashes of what runs of a build: what a function of a library reaches, or the whole of it
    doctor.py        `kv doctor`: what is here, what will be n/a and why, what to run first
    environment.py   asv's environment of a commit: build, cache, switch
    figures.py       errors, counts and figures of code of a build, by a process that times nothing
    fingerprint.py   facts of the machine, and what a build says of its code
    host.py          torch, compiler, device, variables of a measuring process, `kv report` in a process of its own
    instructions.py  functions of x86-64 and AArch64: bytes without addresses, and what they refer to
    peaks.py         `kv peaks`, and the process that measures the ceilings
    report.py        the tables and lines that `kv track` prints
    select.py        the series to measure, and which of them are complete
    session.py       one run: build, measure, resume, ingest, publish, and what is recorded of its commits
    track.py         `kv track`
"""
