"""This repository's suite, as the tools find it."""

from pathlib import Path

from kernel_velocity.suite import config

SUITE = config.suite(Path(__file__).parents[1])
