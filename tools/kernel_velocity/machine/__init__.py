"""What a machine can do at most: ceilings, and times in which it cannot have done the work.

It imports the engine, `problem` and the leaves, and torch only in functions.

    ceilings.py        bandwidths, FLOP/s, launches, measured
    device_figures.py  one tracked number for each ceiling. Sizes of caches as seen
    limits.py          times in which the machine cannot have done the work, refused
    workloads.py       what ceilings are measured with: streams, products, multiply-adds
"""
