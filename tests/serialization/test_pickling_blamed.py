"""Which part of a value cannot be pickled."""

import threading

from penstock.serialization.pickling import find, message

LOCK = threading.Lock()


def is_locked(value):
    """Whether a lock is somewhere in it, as pickling would find."""
    if isinstance(value, dict):
        return any(map(is_locked, value.values()))
    if isinstance(value, list):
        return any(map(is_locked, value))
    return value is LOCK


def test_the_innermost_part_that_fails_is_found_with_the_way_to_it():
    way, culprit = find({"a": [1, {"b": LOCK}], "c": 2}, is_locked, 100)

    assert culprit is LOCK
    assert way == ["key 'a'", "item 1", "key 'b'"]


def test_no_more_parts_are_looked_into_than_asked_for():
    way, culprit = find([[[LOCK]]], is_locked, 2)

    assert way == ["item 0", "item 0"]
    assert culprit == [LOCK]


def test_the_message_names_the_owner_the_part_and_a_remedy():
    said = message("map(f)", {"a": LOCK}, is_locked, TypeError("cannot pickle '_thread.lock'"))

    assert said.startswith("map(f): key 'a' holds a _thread.lock, which cannot be sent")
    assert "__getstate__" in said


def test_a_long_way_is_shown_by_its_ends():
    value = LOCK
    for _ in range(10):
        value = [value]

    said = message("map(f)", value, is_locked, TypeError("no"))

    assert "…" in said
    assert said.count("item 0") == 4
