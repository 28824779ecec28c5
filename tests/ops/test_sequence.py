import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, TransformError
from penstock.graph.run import open_root


class Squares:
    """A map-style dataset that counts."""

    def __init__(self, size, bad=()):
        self.size, self.bad = size, bad
        self.asked = []

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        self.asked.append(i)
        if i in self.bad:
            raise OSError(f"cannot read {i}")
        return {"x": np.full(2, i), "y": i * i}


def test_items_are_read_one_by_one(check_states):
    check_states(
        lambda: Dataset.from_sequence(Squares(9)),
        [{"x": np.full(2, i), "y": i * i} for i in range(9)],
    )


@pytest.mark.parametrize("value", [[1, 2, 3], (4, 5), "abc", np.arange(4), range(5), []])
def test_anything_with_length_and_items_will_do(value):
    assert list(Dataset.from_sequence(value)) == list(value)
    assert Dataset.from_sequence(value).cardinality() == len(value)


def test_an_error_belongs_to_its_item(check_states):
    whole = check_states(lambda: Dataset.from_sequence(Squares(9, bad=(0, 3, 4, 8))))

    assert len(whole) == 9
    assert whole[3].text == "from_sequence(Squares) failed at element 3: OSError: cannot read 3"


def test_an_error_is_chained_and_the_item_is_not_read_again():
    squares = Squares(9, bad=(3,))
    it = iter(Dataset.from_sequence(squares))
    for _ in range(3):
        next(it)

    with pytest.raises(TransformError) as caught:
        next(it)

    assert isinstance(caught.value.__cause__, OSError)
    assert next(it)["y"] == 16
    assert squares.asked.count(3) == 1


def test_an_item_that_is_no_element_is_an_error():
    with pytest.raises(TransformError, match=r"from_sequence\(list\) failed at element 1.*None"):
        list(Dataset.from_sequence([1, None]))


def test_to_skip_reads_nothing():
    squares = Squares(100)
    run = open_root(Dataset.from_sequence(squares).node, Context.local(1))

    assert run.skip(90) == 90
    assert squares.asked == []


@pytest.mark.parametrize("value", [5, iter([1]), {1, 2}, None, (x for x in "ab")])
def test_what_has_no_items_is_named(value):
    with pytest.raises(DatasetError, match=rf"from_sequence: {type(value).__name__} must have"):
        Dataset.from_sequence(value)


def pandas_like(values, ndim=1):
    """Return what is indexed by labels, as a filtered Series of pandas is."""

    class Series:
        def __init__(self):
            self.ndim = ndim

        def __len__(self):
            return len(values)

        def __getitem__(self, label):
            return {10 * i: value for i, value in enumerate(values)}[label]

        def to_numpy(self):
            return np.array(values, object)

    Series.__module__ = "pandas.core.series"
    return Series()


def test_a_series_of_pandas_is_read_by_places_and_not_by_labels():
    assert list(Dataset.from_sequence(pandas_like(["a", "c", "d"]))) == ["a", "c", "d"]


def test_a_frame_of_pandas_is_refused_and_the_error_says_what_to_give():
    with pytest.raises(DatasetError, match=r"from_tensor_slices\(dict\(frame\)\)"):
        Dataset.from_sequence(pandas_like(["a"], ndim=2))


def test_a_dict_is_probably_a_mistake():
    with pytest.raises(DatasetError, match="a dict has keys, not numbers"):
        Dataset.from_sequence({"a": 1})
