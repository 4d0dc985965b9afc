"""Build commits and have asv measure them.

This room holds `kv track` and `kv peaks`, and everything that starts a measuring process. It may import the harness,
the leaves, results, series and roofline. A node that only measures imports it without scipy, orjson or Jinja2.

    asv.py           run asv, read its output, name the machine
    asv_commands.py  asv's own commands on our suite: series of a tier, tables without n/a, the working tree
    backfill.py      --every: every n-th commit of a range, then halves where a test case changed
    child.py         a command as a child process, which ends with all that it started
    clocks.py        --lock-clocks: a GPU's clocks, locked while a command measures
    code_hash.py     describe a build that does not describe itself: hashes of machine code
    checks.py        requirements and shared arguments of the commands that measure
    doctor.py        `kv doctor`: what is here, what will be n/a and why, what to run first
    environment.py   asv's environment of a commit: build, cache, switch
    facts.py         what a node is, which device is measured, what it lacks
    fingerprint.py   facts of the machine and of a build, hashes of kernels' code
    forecast.py      what measuring costs: a model, and what a run corrects of it
    host.py          torch, compiler, device, and variables of a measuring process
    live.py          start a live stage in a measuring process
    peaks.py         `kv peaks`
    publish.py       write the site in a process without threads
    report.py        the tables and lines that `kv track` prints
    resume.py        which commits of an interrupted run need how many rounds
    select.py        the series to measure, and which of them are complete
    session.py       one run: build, measure, ingest, publish, and what is recorded of its commits
    sharing.py       the table of series that share a process
    stages.py        ceilings, timers and shared processes, measured in the process that live.py starts
    track.py         `kv track`
"""
