"""What tests of the dispatcher share."""

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from penstock_dispatcher.config import DispatcherConfig
from tests.dispatcher.core import scenario
from tests.dispatcher.running_dispatcher import FAST, far, near


@pytest.fixture(scope="session")
def play():
    """Runs a scenario; see `core/scenario.py`."""
    return scenario.play


@pytest.fixture
def config(tmp_path):
    return DispatcherConfig(work_dir=str(tmp_path / "work"))


@pytest.fixture
def file(tmp_path):
    """The file of a journal."""
    return tmp_path / "journal.db"


@pytest.fixture(params=["near", "far", "durable"])
async def opening(request, tmp_path):
    """Opens dispatchers: ``await opening(config)`` returns one, near or far, and its body."""
    place = far if request.param == "far" else near
    async with AsyncExitStack() as stack:

        async def enter(config=FAST):
            if request.param == "durable":
                config = replace(config, work_dir=str(tmp_path / "work"))
            return await stack.enter_async_context(place(config))

        yield enter


@pytest.fixture
async def api(opening):
    dispatcher, _ = await opening()
    return dispatcher
