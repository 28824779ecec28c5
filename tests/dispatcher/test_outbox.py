import asyncio

import pytest

from penstock.errors import Unavailable
from penstock_dispatcher.outbox import Outbox


async def drained(outbox):
    return [item async for item in outbox]


async def test_of_levels_only_the_newest_waits_and_others_keep_their_order():
    outbox = Outbox(int)
    for item in (1, "a", 2, "b", 3):
        outbox.put(item)
    outbox.close()

    assert await drained(outbox) == [3, "a", "b"]


async def test_an_item_wakes_who_waits_for_it():
    outbox = Outbox()
    waiting = asyncio.create_task(anext(outbox))
    await asyncio.sleep(0)

    outbox.put("x")

    assert await waiting == "x"


async def test_the_end_comes_behind_what_waits_and_wakes_who_waits():
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
