import os

import pytest

from penstock.ipc.fork_door import ForkDoor
from tests.ipc.forks import ROOT, SERVER


@pytest.fixture
def door(monkeypatch):
    """A server of the processes in `tests.ipc.forks`."""
    monkeypatch.chdir(ROOT)
    door = ForkDoor.start(SERVER, dict(os.environb))
    yield door
    door.close()
