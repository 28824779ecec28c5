import os

import pytest

from penstock.ipc.fork_client import ForkClient
from tests.ipc.forks import ROOT, SERVER


@pytest.fixture
def server(monkeypatch):
    """A server of the processes in `tests.ipc.forks`."""
    monkeypatch.chdir(ROOT)
    server = ForkClient(SERVER)
    server.start(os.environb)
    yield server
    server.close()
