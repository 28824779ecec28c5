"""The structure of elements: apart into columns, together again, and as plain data."""

from typing import NamedTuple

import pytest

from penstock.frames.nest import LEAF, Dict, Tuple, named_tuple, nest_from, nest_of


class Point(NamedTuple):
    x: object
    y: object


ELEMENTS = [1, (1, "a"), {"b": 1, "a": (2, 3)}, Point(1, {"k": 2}), (), {}, ({}, ((),))]


def columns_of(block):
    out = []
    return nest_of(block[0]).split(block, out), out


@pytest.mark.parametrize("element", ELEMENTS, ids=repr)
def test_a_block_comes_apart_into_a_column_a_leaf_and_together_again(element):
    nest = nest_of(element)

    whole, columns = columns_of([element] * 3)

    assert whole
    assert len(columns) == nest.size[0]
    assert list(nest.join(columns[::-1], 3)) == [element] * 3


@pytest.mark.parametrize(
    "block",
    [
        [(1, 2), (1, 2, 3)],
        [(1, 2), [1, 2]],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [(1, 2), Point(1, 2)],
    ],
    ids=repr,
)
def test_elements_of_two_structures_do_not_come_apart_together(block):
    assert not columns_of(block)[0]


@pytest.mark.parametrize("element", ELEMENTS, ids=repr)
def test_a_structure_survives_as_plain_data(element):
    there = nest_from(nest_of(element).plain())

    assert there.plain() == nest_of(element).plain()
    assert there.size == nest_of(element).size


def test_a_named_tuple_arrives_as_one_type_for_one_name_and_fields():
    kind = nest_from(nest_of(Point(1, 2)).plain()).kind

    assert kind is named_tuple("Point", ("x", "y"))
    assert kind(1, 2)._asdict() == {"x": 1, "y": 2}
    assert named_tuple("class", ("x",)).__name__ == "Element"


def test_leaves_and_places_are_counted():
    assert nest_of({"a": (1, 2), "b": 3}).size == (3, 5)
    assert LEAF.size == (1, 1)


@pytest.mark.parametrize(
    "plain",
    [
        1,
        ["tuple"],
        ["tuple", 3],
        ["dict", [None], [b"a", b"b"]],
        ["dict", [None, None], [b"a"] * 2],
    ],
    ids=repr,
)
def test_what_no_structure_was_is_refused(plain):
    with pytest.raises(ValueError, match="no structure"):
        nest_from(plain)


def test_names_of_the_wrong_type_are_refused():
    with pytest.raises(TypeError):
        nest_from([Tuple.tag, [None], "P", [3]])
    with pytest.raises(TypeError):
        nest_from([Dict.tag, [None], ["a"]])
