"""Datasets that are read through a fake mesh, and the sessions that read them."""

import time

from penstock.dataset.dataset import Dataset

UPSTREAM = Dataset.range(10)  # what the fake worker does not run


def far(mesh, **kwargs):
    return UPSTREAM.distribute("parallel_epochs", mesh.target, **kwargs)


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def session_of(it):
    return it._reading._sessions.live()[0][1]


def numbers(elements):
    return [int(element) for element in elements]
