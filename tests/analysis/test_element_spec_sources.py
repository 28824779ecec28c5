"""What is known of a source's elements without one, and of a pipeline's where no function runs."""

import numpy as np
import pytest

from penstock.analysis.array_spec import ArraySpec
from penstock.dataset.dataset import Dataset

INT = np.dtype(np.int64)


def ints(*shape):
    return ArraySpec(shape, INT)


@pytest.mark.parametrize(
    ("make", "spec"),
    [
        (lambda: Dataset.range(0), ints()),
        (
            lambda: Dataset.from_tensor_slices(np.zeros((0, 3), "f4")),
            ArraySpec((3,), np.dtype("f4")),
        ),
        (
            lambda: Dataset.from_tensor_slices({"x": np.zeros((0, 2), int), "y": []}),
            {"x": ints(2), "y": ArraySpec((), np.dtype("f8"))},
        ),
        (lambda: Dataset.from_tensor_slices(np.array([], "U3")), ArraySpec((), str)),
        (lambda: Dataset.text_lines("/nowhere/*"), ArraySpec((), str)),
        (lambda: Dataset.list_files("/nowhere/*"), ArraySpec((), str)),
        (lambda: Dataset.tfrecords("/nowhere"), ArraySpec((), bytes)),
        (lambda: Dataset.fixed_length_records("/nowhere", 4), ArraySpec((), bytes)),
    ],
)
def test_the_elements_of_an_empty_or_absent_source_are_known(make, spec):
    assert make().element_spec == spec


@pytest.mark.parametrize(
    "tensors",
    [
        [1, 2],
        np.zeros((2, 3), ">f4"),
        np.array([b"ab", b"c"]),
        ["a", "b"],
        [["a"], ["b"]],
        np.array([1, 2], "M8[ms]"),
        np.zeros(2, [("a", "i4"), ("b", "f8", 2)]),
        (np.zeros((2, 0)), {"y": np.array([True, False])}),
    ],
)
def test_what_is_known_of_rows_is_what_the_rows_are(tensors):
    rows = Dataset.from_tensor_slices(tensors)

    assert rows.element_spec == rows.map(lambda *row: row if len(row) > 1 else row[0]).element_spec


def test_operators_without_functions_have_a_spec_also_without_an_element(tmp_path):
    lines = Dataset.text_lines("/nowhere/*").cache(tmp_path / "kept").shuffle(10**9).repeat()

    assert lines.batch(4).element_spec == ArraySpec((4,), str)
    assert Dataset.range(5).take(0).skip(10**12).batch(2).element_spec == ints(2)
    assert Dataset.zip(Dataset.range(0), lines).enumerate().element_spec == (
        ints(),
        (ints(), ArraySpec((), str)),
    )
    assert not list(tmp_path.iterdir())


def test_no_function_sees_an_element_that_is_made_up():
    seen = []
    numbers = Dataset.range(5, 9).map(lambda x: seen.append(int(x)) or x)

    assert numbers.batch(2).element_spec == ints(2)
    assert set(seen) <= {5, 6, 7, 8}
