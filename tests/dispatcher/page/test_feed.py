"""Those who look on: a snapshot, then changes; nobody who is slow holds up anybody."""

import asyncio
import json

import pytest

from penstock.errors import Overloaded
from penstock_dispatcher.fact_log import Notice, NoticeKind
from penstock_dispatcher.page import feed as feed_module
from penstock_dispatcher.page.feed import LISTENERS, QUEUED, PageFeed
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import START


class Clock:
    now = 0.0

    def __call__(self):
        return START + self.now


def looking_at(scene):
    clock = Clock()
    return PageFeed(lambda: scene(clock.now), clock), clock


def parsed(message):
    fields = dict(line.split(": ", 1) for line in message.decode().strip().splitlines())
    return fields["event"], fields["id"], json.loads(fields["data"])


async def test_events_are_a_snapshot_and_then_changes_with_numbers_that_rise():
    feed, clock = looking_at(scenes.healthy)
    events = feed.events()

    assert await anext(events) == b"retry: 2000\n\n"
    kind, first, whole = parsed(await anext(events))
    assert (kind, whole["headline"]["iteration"]) == ("snapshot", 7100)
    ids = [first]
    for second in (1, 2):
        clock.now = second
        feed.tell(Notice(NoticeKind.JOINED, f"notice {second}"))
        feed.look()
        kind, name, change = parsed(await anext(events))
        assert (kind, [one["words"] for one in change["notices"]]) == (
            "change",
            [f"notice {second}"],
        )
        assert change["number"] == whole["number"] + second
        ids.append(name)
    assert len({name.split("-")[0] for name in ids}) == 1
    await events.aclose()


async def test_a_second_one_who_looks_on_gets_the_same_changes():
    feed, clock = looking_at(scenes.healthy)
    one = feed.events()
    await anext(one), await anext(one)
    clock.now = 1.0
    feed.look()
    await anext(one)
    other = feed.events()
    await anext(other)
    _, _, whole = parsed(await anext(other))

    clock.now = 2.0
    feed.look()

    (_, _, mine), (_, _, theirs) = parsed(await anext(one)), parsed(await anext(other))
    assert mine == theirs
    assert mine["number"] == whole["number"] + 1
    await one.aclose()
    await other.aclose()


async def test_one_who_does_not_take_messages_is_dropped_and_they_are_not_kept():
    feed, clock = looking_at(scenes.healthy)
    events = feed.events()
    await anext(events), await anext(events)

    for second in range(1, QUEUED + 20):
        clock.now = float(second)
        feed.look()

    assert [message async for message in events] == []
    assert feed.listening == 0


async def test_so_many_may_look_on_and_others_are_told_to_come_again():
    feed, _ = looking_at(scenes.empty)
    everybody = [feed.events() for _ in range(LISTENERS)]
    for events in everybody:
        await anext(events)

    with pytest.raises(Overloaded, match="look on already") as caught:
        await anext(feed.events())

    assert caught.value.retry_after == 5.0
    for events in everybody:
        await events.aclose()
    assert feed.listening == 0


async def test_while_nobody_looks_on_looking_takes_half_a_per_cent_of_the_time(monkeypatch):
    """Time lines go on, the more seldom the longer a look takes."""
    monkeypatch.setattr(feed_module, "EVERY", 0.0)
    looks, pauses = [], []

    async def wait_for(waiting, pause):
        waiting.close()
        pauses.append(pause)
        if len(pauses) == 3:
            raise asyncio.CancelledError
        raise TimeoutError

    ticks = iter([0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
    monkeypatch.setattr(feed_module.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(feed_module.asyncio, "wait_for", wait_for)
    feed = PageFeed(lambda: looks.append(1) or scenes.empty(0.0), lambda: START + len(looks))

    with pytest.raises(asyncio.CancelledError):
        await feed.look_forever()

    assert pauses == [100.0, 100.0, 100.0]
    assert len(looks) == 3


async def test_who_comes_is_shown_what_is_there_now():
    feed, clock = looking_at(scenes.healthy)
    feed.look()
    clock.now = 500.0

    assert json.loads(feed.snapshot())["at"] == START + 500.0
