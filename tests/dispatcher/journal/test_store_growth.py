"""The journal's file: what it is made of, how long it gets, what a full disk does."""

import random

import pytest

from penstock.errors import StoreFull
from penstock.protocol.calls import JobParameters
from penstock.protocol.types import Codec, Mode
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.core.facts import JobCreated
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.journal.snapshot import Changes
from penstock_dispatcher.journal.store import Store
from tests.dispatcher.journal.random_facts import SETTINGS, RandomFacts, loaded, written


@pytest.mark.quick(3)
@pytest.mark.parametrize("seed", range(12))
def test_what_was_written_is_read_again_whatever_was_compacted_on_the_way(file, seed):
    world, rng = RandomFacts(seed), random.Random(seed)
    store = Store(file, power=False)
    read = store.load()
    state, changes = read.state, read.changes
    world.core = DispatcherCore(state, SETTINGS, 0.0)
    kinds = set()
    for _ in range(400):
        facts = world.step()
        for fact in facts:
            changes.note(fact)
            kinds.add(type(fact))
        if facts and rng.random() < 0.1:
            store.compact(changes.snapshot())
        elif facts:
            written(store, facts, state.length)
        if rng.random() < 0.02:
            store.close()
            store = Store(file, power=False)
            read = store.load()
            assert read.state == state
            assert list(read.state.jobs) == list(state.jobs)
            assert list(read.state.iterations) == list(state.iterations)
            state, changes = read.state, read.changes
            world.core = DispatcherCore(state, SETTINGS, world.now)
    store.close()

    assert loaded(file) == state
    assert len(kinds) >= 12


@pytest.mark.slow
def test_the_file_does_not_grow_with_history(file):
    world = RandomFacts(5)
    store = Store(file, power=False)
    world.core = DispatcherCore(store.load().state, SETTINGS, 0.0)
    changes, sizes = Changes(world.state), []
    for step in range(3000):
        facts = world.step()
        for fact in facts:
            changes.note(fact)
        if step % 20 == 19:
            store.compact(changes.snapshot())
        elif facts:
            written(store, facts, world.state.length)
        if step % 1000 == 999:
            store._ask("PRAGMA wal_checkpoint(TRUNCATE)")
            sizes.append(file.stat().st_size)
    store.close()

    assert sizes[-1] < 2 * sizes[0] + 200_000


def test_a_full_store_loses_nothing_and_goes_on_when_there_is_room(file):
    store = Store(file, power=False, max_pages=20)
    length = 0
    with pytest.raises(StoreFull, match=rf"no room to write {file}.*free space"):
        while True:
            written(store, [DatasetRegistered(f"d{length + 1}", (), "x" * 500)], length + 1)
            length += 1
    with pytest.raises(StoreFull):
        written(store, [DatasetRegistered(f"d{length + 1}", (), "x" * 500)], length + 1)

    store._ask("PRAGMA max_page_count = 1000")
    written(store, [DatasetRegistered(f"d{length + 1}", (), "x" * 500)], length + 1)
    store.close()

    assert length > 20
    assert loaded(file).length == length + 1


def test_a_snapshot_makes_room_in_a_full_store(file):
    store = Store(file, power=False, max_pages=30)
    state = store.load().state
    changes = Changes(state)
    with pytest.raises(StoreFull):
        while True:
            facts = [
                JobCreated("j", _parameters(), 1, False),
                DatasetRegistered("d", (), "x" * 500),
            ]
            for fact in facts:
                state.apply(fact)
                changes.note(fact)
            written(store, facts, state.length)

    store.compact(changes.snapshot())
    store.close()

    assert loaded(file) == state


def _parameters():
    return JobParameters("d", Mode.OFF, Codec.NONE)


def test_power_is_bought_with_an_fsync_of_each_transaction(file):
    with Store(file, power=True) as store:
        assert store._ask("PRAGMA synchronous") == [(2,)]
    with Store(file, power=False) as store:
        assert store._ask("PRAGMA synchronous") == [(1,)]
        assert store._ask("PRAGMA journal_mode") == [("wal",)]
        assert store._ask("PRAGMA quick_check") == [("ok",)]
    assert not list(file.parent.glob("*-wal"))
