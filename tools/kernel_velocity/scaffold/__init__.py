"""The files of a new kernel, in this repository or in another one (`kv new`).

It may import every room below the faces. No room imports it.

    new.py         `kv new`: options, names that cannot be, writing all files or none
    signature.py   the arguments of the kernel, read from text or from a Problem
    files.py       the files as text: templates (new_templates/), formatted
"""
