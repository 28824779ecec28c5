import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ElementError, TransformError


def test_from_tensors_gives_one_element(check_states):
    check_states(
        lambda: Dataset.from_tensors({"a": [[1, 2], [3, 4]], "b": ("text", 2.5)}),
        [{"a": np.array([[1, 2], [3, 4]]), "b": ("text", 2.5)}],
    )
    check_states(lambda: Dataset.from_tensors(7).repeat(3), [7, 7, 7])
    assert Dataset.from_tensors(7).cardinality() == 1


def test_nobody_can_write_to_the_user_s_arrays():
    owned = np.zeros(2)

    def spoil(x):
        x += 1
        return x

    with pytest.raises(TransformError, match="read-only"):
        next(iter(Dataset.from_tensors(owned).map(spoil)))

    assert owned.flags.writeable
    assert owned.tolist() == [0, 0]


def test_what_a_function_adds_to_a_dict_is_not_there_in_the_next_pass():
    def add(element):
        assert set(element) == {"a"}
        element["b"] = 1
        return element

    assert len(list(Dataset.from_tensors({"a": 1}).repeat(2).map(add))) == 2


def test_what_is_no_element_is_named():
    with pytest.raises(ElementError, match="object array"):
        Dataset.from_tensors([None, 1])
    with pytest.raises(ElementError, match="keys of a dict in an element must be str, not 1"):
        Dataset.from_tensors({1: 2})
    with pytest.raises(ElementError, match="ragged"):
        Dataset.from_tensors([[1], [2, 3]])
