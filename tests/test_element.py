"""Elements: nests, their leaves, and stacks of them."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.element import (
    collate,
    describe,
    leaves,
    map_leaves,
    nbytes,
    own_nest,
    preview,
    read_only,
    rebuild,
    structure,
    unlike,
)
from penstock.errors import ElementError
from penstock.normalise import normalise


class Point(NamedTuple):
    x: Any
    y: Any


def test_leaves_and_rebuild_are_inverse():
    element = normalise({"a": (1, Point("x", 2.5)), "b": b"z"})

    assert leaves(element) == [1, "x", 2.5, b"z"]
    assert rebuild(element, leaves(element)) == element
    assert type(rebuild(element, leaves(element))["a"][1]) is Point
    assert map_leaves(lambda leaf: 0, element) == {"a": (0, Point(0, 0)), "b": 0}


def test_structures_tell_nests_apart():
    nests = [1, (1,), (1, 1), Point(1, 1), {"a": 1}, {"b": 1}, {"a": (1,)}]

    assert len({structure(nest) for nest in nests}) == len(nests)
    assert structure((1, "a")) == structure((np.zeros(3), b"b"))


def test_the_first_element_is_found_that_has_another_structure():
    nests = [1, (1,), (1, 1), Point(1, 1), {"a": 1}, {"b": 1}, {"a": (1,)}, ({"a": 1}, 2)]

    for one in nests:
        assert unlike([one, one, one]) is None
        for other in nests:
            if other is not one:
                assert unlike([one, one, other, (7, 7, 7)]) is other
    assert unlike([{"a": 1, "b": (2,)}, {"b": ("x",), "a": np.zeros(3)}]) is None


def test_collate_stacks_leaf_by_leaf():
    batch = collate([{"x": np.zeros(2), "t": "a"}, {"x": np.ones(2), "t": "b\0"}])

    assert batch["x"].tolist() == [[0, 0], [1, 1]]
    assert batch["t"].tolist() == ["a", "b\0"]
    assert type(collate([Point(np.int64(1), b"x")])) is Point


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ([np.zeros(2), np.zeros(3)], r"float64\[2\] is followed by float64\[3\]; use padded_batch"),
        ([np.int64(1), np.float64(1)], "int64 is followed by float64"),
        (["a", b"a"], "str is followed by bytes"),
        ([(1,), {"a": 1}], "is followed by"),
        ([{"a": 1}, {"b": 1}], r"\{'a': .*is followed by \{'b'"),
        ([np.int64(1), np.zeros(1)], "int64 is followed by float64"),
        ([np.zeros(1, np.int8), np.zeros(1)], r"int8\[1\] is followed by float64\[1\]"),
    ],
)
def test_collate_names_both_when_elements_differ(elements, words):
    with pytest.raises(ElementError, match=words):
        collate(elements)


def test_read_only_views_leave_the_owner_s_array_alone():
    owned = np.zeros(2)

    element = read_only({"a": (owned, "x")})

    assert not element["a"][0].flags.writeable
    assert np.shares_memory(element["a"][0], owned)
    assert owned.flags.writeable


def test_an_own_nest_shares_leaves_and_not_containers():
    element = {"a": (np.zeros(2), {"b": "x"})}

    other = own_nest(element)

    assert other is not element
    assert other["a"][1] is not element["a"][1]
    assert other["a"][0] is element["a"][0]


def test_elements_are_described_and_measured():
    element = normalise({"a": (np.zeros((2, 3)), "text"), "b": 1, "c": (b"x",)})

    assert describe(element) == "{'a': (float64[2, 3], str), 'b': int64, 'c': (bytes,)}"
    assert nbytes(element) == 48 + 4 + 8 + 1


@pytest.mark.parametrize(
    ("element", "shown"),
    [
        (np.int64(5), "np.int64(5)"),
        ("x" * 10_000, "'" + "x" * 196 + "..."),
        ({"a": (b"\x00", np.zeros(2))}, "{'a': (b'\\x00', array([0., 0.]))}"),
    ],
)
def test_a_preview_shows_the_start_of_an_element(element, shown):
    assert preview(element) == shown
