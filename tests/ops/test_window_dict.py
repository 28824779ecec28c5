"""A window of dicts has the methods of a dataset, and is a dict all the same."""

import pytest

from penstock.dataset.dataset import Dataset


def rows():
    return Dataset.range(4).map(lambda x: {"x": x, "y": -x})


def test_methods_of_a_dataset_see_the_elements_of_a_window_side_by_side():
    (batch,) = rows().window(4).flat_map(lambda w: w.filter(lambda row: row["x"] > 1).batch(4))

    assert {key: batch[key].tolist() for key in batch} == {"x": [2, 3], "y": [-2, -3]}


def test_a_window_of_dicts_is_a_dict_of_datasets():
    sums = rows().window(2).flat_map(lambda w: Dataset.zip((w["x"].batch(2), w["y"].batch(2))))

    assert [(x.tolist(), y.tolist()) for x, y in sums] == [([0, 1], [0, -1]), ([2, 3], [-2, -3])]


def test_what_neither_has_is_an_attribute_error():
    with pytest.raises(Exception, match="no attribute 'nothing'"):
        list(rows().window(2).flat_map(lambda w: w.nothing))
