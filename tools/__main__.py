"""``python -m tools``: the command line of kernel_velocity, from the root of a checkout."""

from kernel_velocity.__main__ import console

console()
