"""Waiting for what another thread or process does."""

import time


def wait_until(condition, seconds=20.0):
    """Return once *condition* holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)
