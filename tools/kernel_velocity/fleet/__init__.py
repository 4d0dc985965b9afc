"""Many machines measure one history, and what they measured is merged here.

A fleet (`kv track --fleet SCHEDULER`) is reached by a network: Dask moves the work (distributed, dask-jobqueue). What
is ours is what can be compared: the commits of a test case stay on one machine, and blocks of a long history share
anchor commits. A node without a network gets a folder (`kv offline pack`), and sends back a tar (`kv offline unpack`).
May import every room but `scaffold`. On a node there is no package that draws pages.

    plan.py         commits, lanes, machines and a budget -> jobs. Pure
    scheduler.py    `tls://host:port`, `local:3` or `slurm:nodes=4` -> a client of Dask, and the machines behind it
    slurm.py        jobs of Slurm: submit them, say what Slurm says of them, replace those that end
    run.py          `kv track`: here, or give jobs to the machines of --fleet, merge what comes back, resume
    worker.py       measure a job on a machine: a clone, `kv track`, a tar
    pack.py         `kv offline pack DIR`: everything that a node needs, in one folder
    node.sh         what is started on the node: environment, tests, ceilings, `kv track --minutes`, the tar
    archive.py      the tar that comes back
    unpack.py       `kv offline unpack TAR`: merge it into results/
    join.py         `kv join NAME MACHINE...`: one name for machines of one kind
"""

STEPS = {  # of `kv offline`: step -> its module, and what it does
    "pack": ("fleet.pack", "collect what a node without a network needs into one folder"),
    "unpack": ("fleet.unpack", "merge the tar of a node into results/"),
}
