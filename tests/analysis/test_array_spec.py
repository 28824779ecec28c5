"""Specs travel: as bytes and back they are equal, and damage is a clear error."""

import string
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.analysis.array_spec import ArraySpec, DatasetSpec, spec_from_bytes, spec_to_bytes
from penstock.errors import DatasetError


class Pair(NamedTuple):
    left: object
    right: object


DTYPES = [np.dtype("<i8"), np.dtype("?"), np.dtype("<M8[us]"), np.dtype([("a", "<f4")]), str, bytes]
SHAPES = st.lists(st.none() | st.integers(0, 5), max_size=3).map(tuple)
KEYS = st.text(string.ascii_letters + "ü\udc80", min_size=1, max_size=3)


def nests(inner):
    return (
        st.lists(inner, max_size=3).map(tuple)
        | st.tuples(inner, inner).map(lambda two: Pair(*two))
        | st.dictionaries(KEYS, inner, max_size=3)
    )


SPECS = st.recursive(st.builds(ArraySpec, SHAPES, st.sampled_from(DTYPES)), nests, max_leaves=6)


@pytest.mark.slow
@given(SPECS)
def test_a_spec_comes_back_equal(spec):
    assert spec_from_bytes(spec_to_bytes(spec)) == spec


def test_named_tuples_keep_their_names_and_fields():
    spec = Pair(ArraySpec((), str), ArraySpec((2,), np.dtype("f4")))

    made = spec_from_bytes(spec_to_bytes(spec))

    assert (type(made).__name__, made._fields) == ("Pair", ("left", "right"))


@pytest.mark.parametrize(
    "given", [3, "AUTO", np.zeros(3), (ArraySpec((), object),), ArraySpec((), np.dtype("O"))]
)
def test_what_is_no_spec_is_refused(given):
    with pytest.raises(DatasetError):
        spec_to_bytes(given)


def test_datasets_inside_elements_are_refused_with_the_remedy():
    with pytest.raises(DatasetError, match="flatten"):
        spec_to_bytes((DatasetSpec(ArraySpec((), str)),))


@given(st.binary(max_size=40))
def test_damage_is_a_clear_error(data):
    try:
        spec_from_bytes(data)
    except DatasetError as exc:
        assert "element spec" in str(exc)
