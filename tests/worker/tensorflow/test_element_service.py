"""Which reader answers a request of TensorFlow's client."""

import asyncio
import threading
from dataclasses import replace

import pytest

from penstock.errors import Closed, DatasetError, Unavailable, UnknownIteration, WrongRole
from penstock.protocol.tensorflow import ElementRequest, FoundTask
from penstock_worker.tensorflow.element_service import LOOK_EVERY, ElementService

FOUND = FoundTask("train", 1, "job", 1, 0, cached=False, wanted=True)


class Counting:
    def __init__(self, name):
        self.name, self.count, self.closed = name, 0, False
        self.going, self.held = threading.Event(), threading.Event()
        self.going.set()

    def hold(self):
        self.going.clear()

    def at_hand(self, default):
        return default

    @property
    def round(self):
        return self.count

    def __next__(self):
        if not self.going.is_set():
            self.held.set()
            assert self.going.wait(20)
        if self.closed:
            raise Closed("it was closed")
        self.count += 1
        return f"{self.name} {self.count}".encode()

    def close(self):
        self.closed = True
        self.going.set()


class World:
    """A dispatcher that knows tasks, and what was opened of them."""

    def __init__(self, **known):
        self.known = {int(task.removeprefix("t")): found for task, found in known.items()}
        self.opened, self.now, self.asked = [], 100.0, 0
        self.service = ElementService(self.find, self.open, lambda: self.now)

    async def find(self, request):
        task = request.task_id
        self.asked += 1
        found = self.known.get(task)
        if isinstance(found, Exception):
            raise found
        if found is None:
            raise UnknownIteration(f"task {task}")
        return found

    def open(self, found, consumer, trainer, start):
        name = found.job_name if consumer is None else f"{found.job_name}/{consumer}"
        self.opened.append(Counting(name + trainer))
        return self.opened[-1]

    async def get(self, task, **more):
        return (await self.service.element(ElementRequest(task, **more))).decode()


async def test_tasks_of_one_worker_share_a_reader():
    world = World(t4=FOUND)

    assert [await world.get(task) for task in (4, 5, 4)] == ["job 1", "job 2", "job 3"]
    await world.service.close()


async def test_clients_of_a_task_share_a_reader_and_each_task_has_its_own():
    world = World(t1=FOUND, t2=FOUND)

    found = [await world.get(task) for task in (1, 1, 2)]

    assert found == ["job 1", "job 2", "job 1"]
    assert world.asked == 2
    await world.service.close()


async def test_each_consumer_and_each_trainer_has_a_reader_of_its_own():
    rounds = FoundTask("train", 1, "job", 1, 2, cached=False, wanted=True)
    world = World(t1=rounds, t2=FoundTask("train", 1, "job", 1, 0, cached=True, wanted=True))

    asked = ((0, 0), (1, 0), (0, 1))
    found = [await world.get(1, consumer_index=k, round_index=n) for k, n in asked]
    found += [await world.get(2, trainer_id=name) for name in ("a", "b", "a")]

    assert found == ["job/0 1", "job/1 1", "job/0 2", "joba 1", "jobb 1", "joba 2"]
    await world.service.close()


async def test_without_credentials_only_what_is_opened_is_read_and_nothing_is_begun_for_the_rest():
    opened = replace(FOUND, opened=True)
    world = World(t0=opened, t8=FOUND)

    assert await world.service.opened_element(ElementRequest(0)) == b"job 1"
    for _ in range(2):
        with pytest.raises(WrongRole, match="tensorflow_datasets"):
            await world.service.opened_element(ElementRequest(8))
    assert len(world.opened) == 1
    assert await world.get(8) == "job 1"
    with pytest.raises(WrongRole):  # nor what others read already
        await world.service.opened_element(ElementRequest(8))
    await world.service.close()


async def test_a_consumer_that_does_not_say_which_it_is_is_refused():
    world = World(t1=FoundTask("train", 1, "job", 1, 2, cached=False, wanted=True))

    with pytest.raises(DatasetError, match="has 2 consumers: give consumer_index"):
        await world.get(1)


async def test_a_consumer_that_waits_in_vain_is_sent_elsewhere():
    rounds = FoundTask("train", 1, "job", 1, 2, cached=False, wanted=True)
    world = World(t1=rounds)
    await world.get(1, consumer_index=0, round_index=0)
    (reading,) = world.opened
    reading.hold()
    waiting = asyncio.create_task(world.get(1, consumer_index=0, round_index=1))
    assert await asyncio.to_thread(reading.held.wait, 20)

    world.known[1] = FoundTask("train", 1, "job", 1, 2, cached=False, wanted=False)
    world.now += LOOK_EVERY
    await world.service.look()

    with pytest.raises(Unavailable, match="no more"):
        await waiting
    await world.service.close()


async def test_a_request_that_a_killed_client_left_waiting_keeps_no_pass_open():
    world = World(t0=FOUND)
    await world.get(0)
    (reading,) = world.opened
    reading.hold()
    left = asyncio.create_task(world.get(0))
    assert await asyncio.to_thread(reading.held.wait, 20)

    world.known[0] = FoundTask("train", 1, "job", 1, 0, cached=False, wanted=False)
    world.now += LOOK_EVERY
    await world.service.look()

    with pytest.raises(Unavailable, match="no more"):
        await left
    assert not world.service._reading


async def test_a_task_that_nobody_knows_is_refused():
    with pytest.raises(UnknownIteration):
        await World().get(1)


async def test_what_no_client_reads_any_more_is_closed_after_a_while():
    world = World(t2=FOUND, t4=FOUND, t6=FOUND, t8=FOUND)
    for task in (2, 4, 6, 8):
        await world.get(task)
    kept, released, forgotten, away = world.opened
    world.known[4] = FoundTask("train", 1, "job", 1, 0, cached=False, wanted=False)
    del world.known[6]
    world.known[8] = Unavailable("the dispatcher is away")

    await world.service.look()  # they were asked just now
    world.now += LOOK_EVERY
    await world.service.look()
    again = await world.get(2)
    await world.service.close()

    assert again == "job 2"
    assert len(world.service._reading) == 0
    assert [released.name, forgotten.name] == ["job", "job"]
    assert kept.count == 2
    assert away.count == 1
