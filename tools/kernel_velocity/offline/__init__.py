"""The whole suite on a machine without a network: pack it, run it there in time slices, unpack what it measured.

May import every room but `ab`, `nightly`, `site`, `compare`, `lab` and `scaffold`. On the node there is no package
that draws pages.

    pack.py           `kv offline pack DIR`: everything that a node needs, in one folder
    node/run          what is started on the node: finds a Python for launch.py
    node/launch.py    finds the Python with PyTorch, sets up, becomes `kv offline run`
    run.py            `kv offline run OUT`: the stages of a time slice, resumed after an interruption
    summary.py        what was measured, and what of it is not to be believed
    archive.py        the tar that comes back
    unpack.py         `kv offline unpack TAR`: merge it into results/
"""

STEPS = {  # step -> its module, and what it does
    "pack": ("offline.pack", "collect what a node without a network needs into one folder"),
    "run": ("offline.run", "what `sh DIR/run OUT` starts on the node: every stage, resumed where it was cut off"),
    "unpack": ("offline.unpack", "merge the tar of a node into results/"),
}
