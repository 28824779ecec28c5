"""What readers in the worker's process look at, and how it is given back."""

import asyncio
import gc
import os
import threading

import numpy as np
import pytest

from penstock.protocol.types import Codec
from penstock_worker import lent_here
from penstock_worker.lent_here import LentHere
from penstock_worker.runner.messages import FrameReady
from tests.worker.fake_runners import NBYTES, PLACE, Runners


@pytest.fixture(autouse=True)
def _lends_small_frames(monkeypatch):
    monkeypatch.setattr(lent_here, "SMALL", 1 << 10)


@pytest.fixture
def runners():
    return Runners()


@pytest.fixture
async def taken(runners):
    """Take a frame's payload by its number."""
    lent = LentHere(runners)

    def take(place, nbytes=PLACE):
        frame = FrameReady(1, place, 1, place * PLACE, nbytes, b"", Codec.NONE, nbytes)
        return lent.payload(frame, runners.payload)

    return take


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_frame_is_seen_where_it_was_made(runners, taken):
    payload = taken(3)

    assert np.shares_memory(np.frombuffer(payload, np.uint8), np.asarray(runners.runner.arena))
    assert payload.readonly
    assert set(bytes(payload)) == {3}
    assert runners.loans.lent(runners.runner) == {3 * PLACE: PLACE}


async def test_a_place_is_free_when_its_last_view_dies_and_no_sooner(runners, taken):
    payload = taken(1)
    leaf = np.frombuffer(payload, np.int64).reshape(2, -1)[1:, ::2]
    del payload
    assert runners.loans.free(runners.runner, [PLACE]) == ((), (PLACE,))
    taken(2)
    await asyncio.sleep(2 * lent_here.GIVE_BACK_WITHIN)
    assert runners.free == []

    del leaf
    await until(lambda: runners.free == [PLACE])
    assert runners.loans.lent(runners.runner) == {}
    assert runners.loans.kept == 0


async def test_what_dies_in_other_threads_is_given_back_on_the_loop(runners, taken, monkeypatch):
    where, give_back = set(), runners.give_back

    def noted(*what):
        where.add(threading.get_ident())
        give_back(*what)

    monkeypatch.setattr(runners, "give_back", noted)
    for _ in range(10):
        held = [taken(place) for place in range(NBYTES // PLACE)]
        runners.loans.free(runners.runner, [place * PLACE for place in range(NBYTES // PLACE)])
        threads = [threading.Thread(target=held.pop) for _ in list(held)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await until(lambda: not runners.loans.lent(runners.runner))

    assert where == {threading.get_ident()}
    assert len(runners.free) == 10 * NBYTES // PLACE


async def test_who_takes_the_next_frame_gives_back_what_is_over_before(runners, taken):
    taken(1)
    assert runners.loans.lent(runners.runner) == {PLACE: PLACE}
    payload = taken(2)

    assert runners.loans.lent(runners.runner) == {2 * PLACE: PLACE}
    del payload


async def test_beyond_what_may_be_kept_frames_are_copied(runners, taken):
    kept = [taken(place) for place in range(3)]
    runners.loans.free(runners.runner, [0, PLACE, 2 * PLACE])

    more = taken(3)

    assert isinstance(more.obj, bytes)
    assert set(bytes(more)) == {3}
    assert 3 * PLACE not in runners.loans.lent(runners.runner)
    assert [set(bytes(payload)) for payload in kept] == [{0}, {1}, {2}]


async def test_small_frames_and_those_of_a_runner_that_is_gone_are_copied(runners, taken):
    assert taken(1, lent_here.SMALL - 1).obj == bytes([1]) * (lent_here.SMALL - 1)
    before = taken(2)
    runners.runner.die()

    assert taken(3).obj == bytes([3]) * PLACE
    assert set(bytes(before)) == {2}


async def test_a_forked_process_gives_nothing_back(runners, taken, monkeypatch):
    payload = taken(1)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        posted = []
        forked.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", posted.append)
        del payload
        assert posted == []


def test_views_may_outlive_the_worker_and_its_loop(runners):
    async def take():
        frame = FrameReady(1, 1, 1, PLACE, PLACE, b"", Codec.NONE, PLACE)
        return LentHere(runners).payload(frame, runners.payload)

    payload = asyncio.run(take())
    runners.runner.die()
    gc.collect()

    assert set(bytes(payload)) == {1}
    del payload
