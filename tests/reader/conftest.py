"""What tests of the reader share."""

import gc
import os
import threading
import time
from contextlib import contextmanager

import pytest

from penstock.reader.session import network, session
from tests.reader import fake_services
from tests.reader.core.driven_core import DrivenCore
from tests.reader.core.random_cluster import RandomCluster


@pytest.fixture(scope="module", autouse=True)
def _leaves_soon():
    """Have readers give up a dispatcher that a test stopped sooner than after a minute.

    Until then they keep the process's event loop, of which later tests count the threads.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(network, "OWING", 5.0)
        patched.setattr(session, "OWING", 5.0)
        yield


@pytest.fixture(scope="session")
def driven_core():
    """Makes a reader that is driven by hand."""
    return DrivenCore


@pytest.fixture
def reading():
    """A reader with one task, running on worker w."""
    made = DrivenCore()
    made.view((1, 1, "w"))
    (made.request,) = made.subscribes()
    return made


@pytest.fixture(scope="session")
def world():
    """Makes worlds of readers in which chance decides; see `core/random_cluster.py`."""
    return RandomCluster


@pytest.fixture(scope="session")
def fake():
    """Makes meshes that do as a test says; see `fake_services.py`."""
    return fake_services


@pytest.fixture
def nothing_left():
    """Fail when what a test did between two calls left threads or open files behind."""

    def counts():
        gc.collect()
        threads = {thread.name for thread in threading.enumerate()}
        return threads, {_target(fd) for fd in os.listdir("/proc/self/fd")}

    @contextmanager
    def check():
        before = counts()
        yield
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            left = [now - then for now, then in zip(counts(), before)]
            if not any(left):
                return
            time.sleep(0.01)
        raise AssertionError(f"left behind: {left}")

    return check


def _target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return "gone"
