"""``kv offline <step>``: the whole suite on a machine without a network.

    pack DIR              on a machine with a network: everything that a node needs, in one folder
    sh DIR/run OUT        on the node (node/run, node/launch.py): set-up, then the stages of stages.py, in time slices
    unpack TAR            back home: merge what was measured into `results/`

The steps between are commands of their own, because a stage is a process that can be killed: `time_slice`, which the
launcher starts, and `ceilings`, `traces` and `timers`, which that one starts.
"""

STEPS = {  # step -> its module, and what it does
    "pack": ("offline.pack", "collect what a node without a network needs into one folder"),
    "unpack": ("offline.unpack", "merge the tar of a node into results/"),
    "time_slice": (
        "offline.time_slice",
        "what `sh DIR/run OUT` runs on the node: every stage, resumed where it was cut off",
    ),
    "ceilings": ("offline.ceilings", "measure what the machine can do: bandwidths, FLOP/s, launch overhead"),
    "traces": ("offline.traces", "record raw samples of every timer and cache state"),
    "timers": ("offline.timers", "compare our timers with independent ones"),
}
