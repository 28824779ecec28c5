"""Runs begin a few at once, and those that show nothing keep the others for a while only."""

import asyncio

import pytest

from penstock_worker import start_gate
from penstock_worker.start_gate import StartGate


@pytest.fixture
def patient(monkeypatch):
    """A gate's wait for a sign is longer than any test."""
    monkeypatch.setattr(start_gate, "WITHIN", 60.0)


class Starts:
    """Runs that begin behind a gate, each in a task of its own."""

    def __init__(self, most, count):
        self.gate, self.begun = StartGate(most), []
        self.tasks = [asyncio.create_task(self.start(run)) for run in range(count)]

    async def start(self, run):
        async with self.gate.turn(run):
            self.begun.append(run)

    async def settled(self):
        for _ in range(10):
            await asyncio.sleep(0)
        return self.begun


@pytest.mark.usefixtures("patient")
async def test_a_run_begins_when_one_before_it_has_shown_something():
    starts = Starts(2, 5)
    assert await starts.settled() == [0, 1]

    starts.gate.begun(1)
    starts.gate.begun(1)
    assert await starts.settled() == [0, 1, 2]

    for run in (0, 2, 3, 4):
        await starts.settled()
        starts.gate.begun(run)
    await asyncio.gather(*starts.tasks)
    assert starts.begun == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("patient")
async def test_one_that_fails_or_is_cancelled_keeps_nobody():
    gate = StartGate(1)

    with pytest.raises(ZeroDivisionError):
        async with gate.turn(1):
            raise ZeroDivisionError
    starts = Starts(1, 2)
    await starts.settled()
    starts.tasks[0].cancel()

    assert await starts.settled() == [0, 1]
    starts.gate.begun(1)
    await starts.tasks[1]


async def test_one_that_shows_nothing_keeps_others_for_a_while_only(monkeypatch):
    monkeypatch.setattr(start_gate, "WITHIN", 0.01)

    starts = Starts(1, 3)
    await asyncio.gather(*starts.tasks)

    assert starts.begun == [0, 1, 2]


def test_a_run_that_does_not_wait_may_be_said_to_have_begun():
    StartGate(1).begun(7)
