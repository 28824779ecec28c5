"""What users' functions return becomes elements, or is refused by name."""

import enum
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.dtypes import StringDType

from penstock.dataset.dataset import Dataset
from penstock.errors import ElementError
from penstock.normalise import as_array, as_arrays, normalise, normalise_block


class Point(NamedTuple):
    x: Any
    y: Any


class Level(enum.IntEnum):
    HIGH = 3


class Tensor:
    """Something with __array__, as a CPU tensor is."""

    def __init__(self, value):
        self.value = value

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value, dtype=dtype)


def same(left, right):
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.tolist() == right.tolist()
    return type(left) is type(right) and left == right


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, np.int64(3)),
        (True, np.bool_(True)),
        (2.5, np.float64(2.5)),
        (1j, np.complex128(1j)),
        (Level.HIGH, np.int64(3)),
        (np.float32(1), np.float32(1)),
        (np.array(4, np.uint8), np.uint8(4)),
        ("text", "text"),
        (np.str_("text"), "text"),
        (np.array("text"), "text"),
        (b"b\0", b"b\0"),
        (np.bytes_(b"b"), b"b"),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (Tensor([1, 2]), np.array([1, 2])),
        (Tensor(5), np.int64(5)),
        (np.array(["a", "bc"]), np.array(["a", "bc"], object)),
        (np.array(["a\0b", "é"], StringDType()), np.array(["a\0b", "é"], object)),
        (np.array("text", StringDType()), "text"),
        (np.ma.array([1, 2]), np.array([1, 2])),
        (np.datetime64("2020-01-01"), np.datetime64("2020-01-01")),
    ],
)
def test_leaves_become_arrays_scalars_and_text(value, expected):
    assert same(normalise(value), expected)


def test_nests_keep_their_kinds_and_lists_with_nests_become_tuples():
    element = normalise({"a": [1, (2, "x")], "p": Point(1, (b"y",))})

    assert element == {"a": (1, (2, "x")), "p": Point(1, (b"y",))}
    assert type(element["p"]) is Point
    assert type(element["a"]) is tuple
    assert type(normalise(OrderedDict(a=1))) is dict


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], np.array([1, 2])),
        ([1, 2.5], np.array([1.0, 2.5])),
        ([np.int32(1), np.int32(2)], np.array([1, 2], np.int32)),
        ([np.float16(1), 2.5], np.array([1.0, 2.5])),
        ([True, False], np.array([True, False])),
        ([], np.array([])),
        (["a", "bc"], np.array(["a", "bc"], object)),
        ([np.str_("a"), "b"], np.array(["a", "b"], object)),
        ([b"a\0"], np.array([b"a\0"], object)),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ([["a"], ["b"]], np.array([["a"], ["b"]], object)),
        ([np.ones(2, np.int8), np.zeros(2, np.int8)], np.array([[1, 1], [0, 0]], np.int8)),
        ([np.ones(2, np.int8), np.zeros(2)], np.array([[1.0, 1.0], [0.0, 0.0]])),
        ([Tensor([1, 2]), Tensor([3, 4])], np.array([[1, 2], [3, 4]])),
        ([np.datetime64(1, "s")], np.array([1], "M8[s]")),
    ],
)
def test_a_list_of_what_is_alike_is_one_array(value, expected):
    for made in (normalise(value), normalise({"x": value})["x"]):
        assert same(made, expected)
        assert made.shape == expected.shape


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([[1, 2], [3]], "is ragged"),
        ([np.ones(2), np.ones(3)], "is ragged"),
        ([1, [2]], "is ragged"),
        (["a", 1], "mixes text and other things"),
        (["a", b"a"], "mixes text and other things"),
        ([np.datetime64(1, "s"), 2], "mixes datetime64"),
        ([2**64, 1], "does not fit int64"),
        ([1j, float("inf"), 2**64], "does not fit int64"),
    ],
)
def test_a_list_that_is_no_array_is_refused_and_the_error_says_what_to_return(value, words):
    with pytest.raises(ElementError, match=words) as caught:
        normalise(value)
    assert "int64" in words or "use a tuple for parts" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_datasets_may_stand_inside():
    dataset = Dataset.range(3)

    assert normalise((1, dataset))[1] is dataset


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, r"cannot hold None \(NoneType\)"),
        ({1, 2}, "cannot hold"),
        (object(), "cannot hold"),
        ({1: 2}, r"keys of a dict in an element must be str, not 1 \(int\)"),
        (np.array([None]), "holds None"),
        (np.array([1, "a"], object), "holds 1"),
        (np.array(["a", b"a"], object), "a mix of str and bytes"),
        (2**63, "does not fit int64"),
        (np.zeros(1, [("a", object)]), "structured array"),
        (np.array(["a", None], StringDType(na_object=None)), "holds None"),
        (np.array(["a", np.nan], StringDType(na_object=np.nan)), "holds nan"),
        (np.ma.array([1, 2], mask=[0, 1]), r"masked values \(int64\[2\]\)"),
    ],
)
def test_what_no_dataset_may_yield_is_named(value, words):
    with pytest.raises(ElementError, match=words):
        normalise(value)
    with pytest.raises(ElementError, match=words):
        normalise([1, (value,)])


def test_a_block_of_plain_values_is_not_copied():
    plain = [np.int64(1), "a", b"b", np.float32(2)]

    assert normalise_block(plain) is plain
    assert normalise_block([1, (2,)]) == [1, (2,)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], np.array([1, 2])),
        ([[1.5], [2]], np.array([[1.5], [2.0]])),
        (["a\0", "bc"], np.array(["a\0", "bc"], object)),
        ([np.str_("a"), "b"], np.array(["a", "b"], object)),
        (["ä", "b"], np.array(["ä", "b"], object)),
        ([b"a\0"], np.array([b"a\0"], object)),
        ("text", np.array("text", object)),
        (Tensor([1]), np.array([1])),
        (np.array(["a"], StringDType()), np.array(["a"], object)),
        ([], np.array([])),
    ],
)
def test_what_is_given_to_a_source_is_an_array(value, expected):
    array = as_array(value)

    assert same(array, expected)
    assert array.shape == expected.shape
    assert {type(x) for x in array.flat if isinstance(x, str)} <= {str}


def test_lists_given_to_a_source_are_arrays_and_not_nests():
    arrays = as_arrays({"a": [1, 2], "b": ([3], Point([4], 5))})

    assert arrays["a"].tolist() == [1, 2]
    assert type(arrays["b"][1]) is Point
    assert arrays["b"][1].y.shape == ()


@pytest.mark.parametrize("value", [[[1], [2, 3]], [1, "a"], [None], ["a", b"a"], {1, 2}, [{}]])
def test_what_is_no_array_is_an_error(value):
    with pytest.raises(ElementError):
        as_array(value)


def test_none_is_refused_with_what_to_give_in_its_place():
    with pytest.raises(ElementError, match=r"float\('nan'\).*filter.*statement returns"):
        normalise({"a": (1, None)})


def holding_itself():
    value = []
    value.append(value)
    return value


def nested(levels):
    value = 1
    for _ in range(levels):
        value = (value,)
    return value


@pytest.mark.parametrize(
    "make", [holding_itself, lambda: nested(100_000), lambda: {"a": holding_itself()}]
)
def test_what_is_nested_too_deep_or_holds_itself_is_refused_in_few_words(make):
    with pytest.raises(ElementError, match="nested too deep") as caught:
        normalise(make())

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ([np.uint64(2**60 + 1), 3], [2**60 + 1, 3]),
        ([np.uint64(2**60 + 1), np.int64(-3)], [2**60 + 1, -3]),
        ([True, np.int64(2**60 + 1)], [1, 2**60 + 1]),
    ],
)
def test_integers_of_several_types_stay_exact(value, made):
    array = normalise(value)

    assert array.dtype == np.int64
    assert array.tolist() == made


@pytest.mark.parametrize(
    "value", [[1, 2**63], [2**63], [-1, 2**63], [np.uint64(2**63), -1], [[1, 2], [3, 2**63]]]
)
def test_integers_are_refused_that_would_become_floats(value):
    with pytest.raises(ElementError, match=f"{2**63} does not fit int64: use numpy.uint64"):
        normalise(value)


@pytest.mark.parametrize("value", [[1, 2**63], [[1], [2**63]]])
def test_integers_that_a_source_is_given_are_refused_that_would_become_floats(value):
    with pytest.raises(ElementError, match=f"{2**63} does not fit int64: use numpy.uint64"):
        as_arrays({"id": value})


def test_floats_that_no_integer_holds_are_given_to_a_source():
    assert as_array([1, 1e300, float("inf")]).tolist() == [1.0, 1e300, float("inf")]


def test_rows_of_integers_that_have_no_common_type_are_refused():
    with pytest.raises(ElementError, match="mixes int64 and uint64"):
        normalise([np.array([1], np.int64), np.array([2**60], np.uint64)])
