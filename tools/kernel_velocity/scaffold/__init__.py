"""The files of a new kernel (`kv new`), and of a repository that begins to be tracked (`kv init`).

It may import every room below the faces. No room imports it.

    init.py   `kv init`: what is missing of a configuration, and an example
    new.py    `kv new`: options, names that cannot be, the files as text (new_templates/), writing all or none
"""
