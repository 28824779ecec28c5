"""A dispatcher's garbage collection looks at what is new, and misses no cycle for good."""

import gc
import subprocess
import sys
import weakref

import pytest

from penstock_dispatcher import process
from penstock_dispatcher.process import YOUNG, short_collections


class Node:
    """Something that can be part of a cycle."""

    def __init__(self):
        self.me = self


@pytest.fixture(autouse=True)
def only_by_hand():
    """No collection comes by itself in the middle of a test."""
    before = gc.get_threshold()
    gc.freeze()  # as tests before may have
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_outlived_a_full_collection_is_not_looked_at_again():
    kept = Node()
    with short_collections():
        gc.collect()
        assert gc.get_freeze_count() > 0
        assert not any(one is kept for one in gc.get_objects())


def test_a_young_collection_sets_nothing_aside():
    with short_collections():
        gc.collect(1)
        assert gc.get_freeze_count() == 0


def test_a_cycle_that_came_since_is_found_at_once():
    with short_collections():
        gc.collect()
        gone = weakref.ref(Node())
        gc.collect()
        assert gone() is None


@pytest.mark.slow
def test_a_cycle_among_what_was_set_aside_is_found_once_it_doubled(monkeypatch):
    monkeypatch.setattr(process, "LEAST", 1)
    with short_collections():
        node = Node()
        gc.collect()
        alive = gc.get_freeze_count()
        gone = weakref.ref(node)
        del node
        more = [[] for _ in range(alive)]
        gc.collect()
        assert gone() is not None, "it is not looked at yet"
        more += [[] for _ in range(alive // 10)]
        gc.collect()  # it sees that they have doubled
        gc.collect()
        assert gone() is None
    assert len(more) > alive


def test_collections_are_as_before_when_it_ends():
    before = gc.get_threshold()
    with short_collections():
        assert gc.get_threshold()[0] == YOUNG
        gc.collect()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="it collects in small steps by itself")
def test_collections_that_come_by_themselves_set_aside_too():
    script = (
        "import gc\n"
        "from penstock_dispatcher import process\n"
        "process.YOUNG = 700\n"
        "with process.short_collections():\n"
        "    kept = [[] for _ in range(1_000_000)]\n"
        "    print(gc.get_freeze_count())\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    assert int(said) > 70_000
