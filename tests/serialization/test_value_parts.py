"""What values are made of: a label, and parts with names."""

import collections
import functools

import numpy as np

from penstock.serialization.value_parts import parts


def names(value):
    return [name for name, _ in parts(value).children]


def test_plain_values_are_all_label():
    for value in (1, "text", (1, 2), {"a": [1, 2]}):
        assert parts(value).children == ()


def test_parts_are_named_as_messages_say_them():
    thing = object()
    assert names([thing]) == ["item 0"]
    assert names({"scale": thing}) == ["key 'scale'"]
    assert names(functools.partial(print, thing, end=thing)) == [
        "its function",
        "argument 0",
        "argument 'end'",
    ]


def test_sets_have_no_order_and_their_labels_tell_what_kind_they_are():
    assert parts({1, 2}).label == parts({2, 1}).label
    assert parts({1, 2}).label != parts(frozenset({1, 2})).label


def test_only_an_ordered_dict_is_compared_by_its_order():
    one = parts(collections.OrderedDict(a=1, b=2)).children
    other = parts(collections.OrderedDict(b=2, a=1)).children
    assert one != other


def test_arrays_differ_by_dtype_shape_and_content():
    zeros = np.zeros((2, 3), np.float32)
    assert parts(zeros).label != parts(zeros.reshape(3, 2)).label
    assert parts(zeros).label != parts(zeros.astype(np.float64)).label
    assert parts(zeros).children != parts(zeros + 1).children


def test_what_cannot_be_taken_apart_says_so():
    class Closed:
        def __reduce_ex__(self, protocol):
            raise TypeError("no")

    assert parts(Closed()).opaque
    assert not parts(object()).opaque
