"""A fleet: many machines measure one history (`kv track --fleet SCHEDULER`), and it is merged here.

Dask moves the work (distributed, dask-jobqueue). What is ours is what can be compared: the commits of a test case stay
on one machine, and blocks of a long history share anchor commits. May import every room but `scaffold`.

    command.py      `kv track`: here, or by the machines of --fleet
    plan.py         commits, lanes, machines and a budget -> jobs. Pure
    scheduler.py    `tcp://host:port`, `local:3` or `slurm:nodes=4` -> a client of Dask, and the machines behind it
    run.py          give the jobs to machines, merge what comes back, resume
    worker.py       measure a job on a machine: a clone, `kv track`, a tar
"""
