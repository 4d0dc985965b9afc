"""The files of a new kernel (`kv new`), and of a repository that begins to be tracked (`kv init`).

It may import every room below the faces. No room imports it.

    init.py        `kv init`: what is missing of a configuration, and an example
    new.py         `kv new`: options, names that cannot be, writing all files or none
    signature.py   the arguments of the kernel, read from a Problem: C types, names in C and in Python
    public.py      the files of a public problem: a benchmark that refers to it
    files.py       the files as text: templates (new_templates/), formatted. Starter code
"""
