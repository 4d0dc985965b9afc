"""Waiting for what other processes do: so long that no busy machine fails a test, and not for ever."""

import time

PATIENCE = 600  # s; the limit of a test (pyproject.toml) is longer


def wait_until(condition, what="it did not come about"):
    """Return what a condition gives as soon as that is true. `what` says what is wrong if it never is."""
    until = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < until, what
        time.sleep(0.02)
    return result
