"""Ceilings of a machine, and how far a timing is from them.

This room reads recorded ceilings, makes roofs of them, and holds timings against these. It measures nothing, and may
import results and the rooms below it.

    ceilings.py  read and write the ceilings of sessions, how they moved, the table of `kv peaks`
    model.py     the roofline of one timing, its memory traffic, its cache benefit
    roofs.py     the roofs of a machine from its sessions, and those of a commit
"""
