"""The asv suite, always of HEAD: one module per kernel, and `device.py` for the machine."""

from kernel_velocity.suite.definition import register

register()
