"""What pipelines take together, and of whom."""

import asyncio

import pytest

from penstock.credentials.per_identity import answer_to
from penstock.errors import Overloaded, StoreFull
from penstock_dispatcher import service
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.registrar import RegisteredBytes
from penstock_dispatcher.work_dir.definition_store import MemoryDefinitions
from tests.dispatcher.running_dispatcher import VERSIONS, near
from tests.dispatcher.test_registrar import DEFINITION, OTHER

BOTH = [DEFINITION.to_bytes(), OTHER.to_bytes()]


def test_all_of_them_take_no_more_than_they_may_by_the_name_of_the_bound():
    kept = RegisteredBytes(100, 100)
    assert kept.take("a", "3.11", 60, "ann")

    with pytest.raises(Overloaded, match="41 bytes, .* take 60, .* 100: .*max_registered_bytes"):
        kept.take("b", "", 41, "bob")
    assert kept.take("b", "", 40, "bob")
    assert kept.total == 100


def test_those_of_one_identity_take_no_more_than_it_may():
    kept = RegisteredBytes(100, 50)
    kept.take("a", "", 30, "ann")

    with pytest.raises(Overloaded, match="ann has 30 .* 21 more.*max_registered_bytes_per_ident"):
        kept.take("b", "", 21, "ann")
    assert kept.total == 30
    kept.take("b", "", 21, "bob")


def test_one_that_is_there_counts_once_whoever_brings_it_again():
    kept = RegisteredBytes(100, 100)
    assert kept.take("a", "3.11", 60, "ann")
    assert not kept.take("a", "3.11", 60, "bob")
    assert kept.take("a", "3.12", 40, "bob")  # as another Python needs it


def test_what_is_forgotten_or_was_not_kept_makes_room():
    kept = RegisteredBytes(100, 100)
    kept.take("a", "3.11", 50, "ann")
    kept.take("a", "3.12", 50, "ann")
    kept.give_back("a", "3.12")
    assert kept.total == 50
    kept.forget(["a", "never"])

    assert kept.total == 0
    kept.take("b", "", 100, "ann")


def test_those_of_another_life_count_in_all_and_for_nobody():
    kept = RegisteredBytes(100, 50)
    kept.found("a", "", 50)
    assert kept.take("b", "", 50, "ann")
    with pytest.raises(Overloaded):
        kept.take("c", "", 1, "bob")
    kept.forget(["a"])
    assert kept.take("c", "", 1, "bob")


@pytest.mark.parametrize("durable", [False, True])
async def test_a_dispatcher_refuses_what_has_no_room_and_keeps_what_is_there(tmp_path, durable):
    first, second = BOTH
    work_dir = str(tmp_path) if durable else None
    most = len(first) + len(second) - 1
    config = DispatcherConfig(work_dir=work_dir, limits={"max_registered_bytes": most})
    async with near(config) as (api, _):
        assert await api.register_dataset(first, VERSIONS) == DEFINITION.fingerprint
        with pytest.raises(Overloaded, match="max_registered_bytes"):
            await api.register_dataset(second, VERSIONS)
        assert await api.register_dataset(first, VERSIONS) == DEFINITION.fingerprint
    if durable:  # what a life before kept counts, too
        async with near(config) as (api, _):
            with pytest.raises(Overloaded, match="max_registered_bytes"):
                await api.register_dataset(second, VERSIONS)


async def test_one_identity_that_fills_its_part_leaves_room_for_others():
    first, second = BOTH
    most = len(first) + len(second) - 1
    async with near(DispatcherConfig(limits={"max_registered_bytes_per_identity": most})) as (
        api,
        _,
    ):
        answer_to("ann")
        await api.register_dataset(first, VERSIONS)
        with pytest.raises(Overloaded, match="ann has .*max_registered_bytes_per_identity"):
            await api.register_dataset(second, VERSIONS)
        answer_to("bob")
        assert await api.register_dataset(second, VERSIONS) == OTHER.fingerprint


class FullAtFirst(MemoryDefinitions):
    """Has no room for the first *failing* definitions that come, which it says when it is told."""

    def __init__(self, failing):
        super().__init__()
        self.failing, self.tell, self.came = failing, asyncio.Event(), 0

    async def keep(self, dataset, definition, python=""):
        self.came += 1
        if self.came <= self.failing:
            await self.tell.wait()
            raise StoreFull("no room")
        await super().keep(dataset, definition, python)


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
async def test_of_some_that_bring_the_same_the_one_whose_write_ends_well_is_who_brought_it(
    monkeypatch, failing
):
    store, names = FullAtFirst(failing), ["ann", "bob", "eve"]
    monkeypatch.setattr(service, "definitions_at", lambda *_, **__: store)
    async with near(DispatcherConfig()) as (api, body):

        async def register(name):
            answer_to(name)
            return await api.register_dataset(BOTH[0], VERSIONS)

        calls = [asyncio.create_task(register(name)) for name in names]
        for _ in range(20):  # each goes as far as it can
            await asyncio.sleep(0)
        store.tell.set()
        ends = await asyncio.gather(*calls, return_exceptions=True)

        kept = body._registrar._kept
        assert [type(end) for end in ends] == [StoreFull] * failing + [str] * (3 - failing)
        assert kept.total == sum(nbytes for _, _, nbytes in store.sizes())
        expected = {names[failing]: len(BOTH[0])} if failing < 3 else {}
        assert {name: kept._each[name] for name in names if kept._each[name]} == expected


async def test_one_that_hangs_up_leaves_what_it_brought_to_whoever_waits_for_it(monkeypatch):
    store = FullAtFirst(1)
    monkeypatch.setattr(service, "definitions_at", lambda *_, **__: store)
    async with near(DispatcherConfig()) as (api, body):
        first, second = (
            asyncio.create_task(api.register_dataset(BOTH[0], VERSIONS)) for _ in range(2)
        )
        for _ in range(20):
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        assert not second.done()
        store.tell.set()

        assert await second == DEFINITION.fingerprint
        assert body._registrar._kept.total == len(BOTH[0])
        assert not body._registrar._new
