import random
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.storage.cache_index import CacheIndex, CacheTotals, totals_in

SIZE = 100


class Cache:
    """An index, and what its callers do."""

    def __init__(self, room):
        self.room, self.index = room, CacheIndex(":memory:")

    def read(self, name, nbytes=SIZE):
        """Read a piece; return whether the cache holds it."""
        if self.index.holds(name):
            self.index.note_hit(name, nbytes)
            return True
        self.index.admit(name, nbytes, lambda _: self.room)
        assert sum(self.index.held().values()) <= self.room
        return False

    def epoch(self, names):
        """Read all *names*; return the share that the cache held."""
        return sum(map(self.read, names)) / len(names)


def names_of(count, dataset="a"):
    hashes = random.Random(f"{dataset} {count}")
    return [f"{hashes.getrandbits(160):040x}" for _ in range(count)]


@given(st.integers(1, 120), st.integers(1, 60), st.sampled_from(["same", "shuffled", "back"]))
@settings(max_examples=30)
def test_a_cycle_finds_as_many_pieces_as_there_is_room_for(count, room, order):
    names, cache = names_of(count), Cache(room * SIZE)
    cache.epoch(names)
    for number in range(4):
        if order == "shuffled":
            random.Random(number).shuffle(names)
        if order == "back":
            names.reverse()
        assert cache.epoch(names) >= 0.9 * min(1, room / count)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 500))), st.integers(0, 500))
def test_held_bytes_never_exceed_the_bound(reads, room):
    names, cache, last = names_of(31), Cache(room), {}
    for number, nbytes in reads:
        last.setdefault(number, nbytes)
        cache.read(names[number], last[number])
    held = cache.index.held()
    assert sum(held.values()) == cache.index._total("held") <= room
    assert all(last[names.index(name)] == nbytes for name, nbytes in held.items())


def test_a_bound_that_shrinks_evicts_pieces_until_the_rest_fits():
    cache = Cache(10 * SIZE)
    names = sorted(names_of(11))
    cache.epoch(names[:10])
    cache.room = 4 * SIZE
    cache.read(names[10])
    assert list(cache.index.held()) == names[:4]


def test_a_piece_displaces_only_pieces_with_greater_names():
    cache = Cache(2 * SIZE)
    assert cache.index.admit("b", SIZE, lambda _: cache.room) == (True, [])
    assert cache.index.admit("d", SIZE, lambda _: cache.room) == (True, [])
    assert cache.index.admit("e", SIZE, lambda _: cache.room) == (False, [])
    assert cache.index.admit("a", SIZE, lambda _: cache.room) == (True, ["d"])
    assert cache.index.held() == {"a": SIZE, "b": SIZE}


def test_a_piece_that_is_larger_than_all_that_it_may_displace_displaces_nothing():
    cache = Cache(3 * SIZE)
    cache.epoch(["a", "b", "d"])
    assert cache.index.admit("c", 2 * SIZE, lambda _: cache.room) == (False, [])
    assert set(cache.index.held()) == {"a", "b", "d"}


@pytest.mark.quick(1)
@pytest.mark.parametrize(("before", "now"), [(100, 100), (1000, 50), (50, 1000)])
def test_data_that_nothing_reads_any_more_makes_room(before, now):
    cache = Cache(60 * SIZE)
    for _ in range(3):
        cache.epoch(names_of(before, "before"))
    names = names_of(now, "now")
    for _ in range(8):
        share = cache.epoch(names)
    assert share >= 0.9 * min(1, 60 / now)


def test_two_loops_that_alternate_both_keep_their_share():
    cache, large, small = Cache(50 * SIZE), names_of(80, "large"), names_of(20, "small")
    for _ in range(10):
        shares = cache.epoch(large), cache.epoch(small), cache.epoch(small)
    assert sum(shares) / 3 >= 0.4


def test_the_table_forgets_pieces_that_were_not_read_for_long():
    cache = Cache(10 * SIZE)
    for number in range(50):
        for _ in range(4):
            cache.epoch(names_of(20, f"dataset {number}"))
    (rows,) = cache.index._db.execute("SELECT count(*) FROM pieces").fetchone()
    assert rows < 200


def test_another_process_reads_the_totals_without_writing(tmp_path):
    file = tmp_path / "index ?#.sqlite"
    index = CacheIndex(file)
    index.admit("a", SIZE, lambda _: 1000)
    assert totals_in(file) == CacheTotals(held=SIZE, bound=1000)
    index.close()
    with pytest.raises(sqlite3.OperationalError):
        totals_in(tmp_path / "none")
