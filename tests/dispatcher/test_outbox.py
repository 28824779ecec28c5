import asyncio

import pytest

from penstock.errors import Unavailable
from penstock_dispatcher.outbox import Outbox, Outboxes


async def drained(outbox):
    return [item async for item in outbox]


async def test_of_levels_only_the_newest_waits_and_others_keep_their_order():
    outbox = Outbox(int)
    for item in (1, "a", 2, "b", 3):
        outbox.put(item)
    outbox.close()

    assert await drained(outbox) == [3, "a", "b"]


async def test_an_item_wakes_its_waiter():
    outbox = Outbox()
    waiting = asyncio.create_task(anext(outbox))
    await asyncio.sleep(0)

    outbox.put("x")

    assert await waiting == "x"


async def test_the_end_comes_behind_what_waits_and_wakes_the_waiter():
    outbox = Outbox()
    outbox.put("x")
    outbox.close()
    outbox.put("y")
    outbox.close(Unavailable("too late"))

    assert await drained(outbox) == ["x"]


async def test_an_error_ends_the_stream_behind_what_waits():
    outbox = Outbox()
    outbox.put("x")
    outbox.close(Unavailable("it hung up"))

    assert await anext(outbox) == "x"
    with pytest.raises(Unavailable, match="hung up"):
        await anext(outbox)


async def test_the_newest_stream_of_a_peer_is_the_way_to_it():
    ways = Outboxes()
    older, newer = Outbox(), Outbox()
    ways.lead("peer", older)
    ways.lead("peer", newer)

    ways.put("peer", 1)
    ways.put("stranger", 2)

    assert await anext(newer) == 1
    with pytest.raises(Unavailable, match="newer stream"):
        await anext(older)
    assert ways.forget(["peer"], older) == []
    assert ways.forget(["peer", "stranger"], newer) == ["peer"]


async def test_streams_can_be_ended_one_by_one_and_all_at_once():
    ways = Outboxes()
    boxes = {name: Outbox() for name in "abc"}
    for name, box in boxes.items():
        ways.lead(name, box)

    ways.close("a")
    ways.close("stranger")
    ways.close_all(Unavailable("over"))

    with pytest.raises(StopAsyncIteration):
        await anext(boxes["a"])
    for name in "bc":
        with pytest.raises(Unavailable, match="over"):
            await anext(boxes[name])


def test_what_comes_late_by_an_older_stream_does_not_take_the_peer_back():
    ways, older, newer = Outboxes(), Outbox(), Outbox()
    ways.lead("peer", older)
    ways.lead("peer", newer)

    with pytest.raises(Unavailable, match="newer stream"):
        ways.lead("peer", older)
    assert not newer.closed
