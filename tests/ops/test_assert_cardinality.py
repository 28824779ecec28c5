import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError
from penstock.graph.node import INFINITE, UNKNOWN


def wrong(expected, found):
    return ElementError(
        f"assert_cardinality: the dataset was expected to have {expected} elements, but it has "
        f"{found}: give expected_cardinality the number it has, or mend the pipeline before it"
    )


def test_fewer_are_an_error_at_the_end(check_states):
    check_states(lambda: Dataset.range(2).assert_cardinality(5), [0, 1, wrong(5, "only 2")])


def test_more_are_an_error_at_the_first_that_is_too_many(check_states):
    check_states(lambda: Dataset.range(9).assert_cardinality(2), [0, 1, wrong(2, "at least 3")])


def test_an_endless_dataset_that_ends_is_an_error(check_states):
    check_states(
        lambda: Dataset.range(2).assert_cardinality(INFINITE),
        [0, 1, wrong("infinitely many", "only 2")],
    )


def test_nothing_is_made_behind_the_one_too_many(counted):
    fn = counted(lambda x: x)

    with pytest.raises(DatasetError, match="at least 4"):
        list(Dataset.range(1000).map(fn).assert_cardinality(3))

    assert fn.calls == [0, 1, 2, 3]


def test_skipping_counts_too():
    it = iter(Dataset.range(9).assert_cardinality(5).skip(3))

    assert [next(it), next(it)] == [3, 4]
    with pytest.raises(DatasetError, match="at least 6"):
        next(it)


@pytest.mark.parametrize("size", [0, 5])
def test_without_an_expectation_nothing_is_asserted(size):
    dataset = Dataset.range(size).assert_cardinality(UNKNOWN)

    assert len(list(dataset)) == size
    assert dataset.cardinality() == UNKNOWN


@pytest.mark.parametrize("expected", [0, 7, INFINITE])
def test_it_has_as_many_elements_as_it_says(expected):
    dataset = Dataset.range(20).filter(lambda x: x < 7).assert_cardinality(expected)

    assert dataset.cardinality() == expected


@pytest.mark.parametrize("expected", [-3, 1.5, None, True, "7"])
def test_what_is_no_cardinality_is_refused(expected):
    with pytest.raises(DatasetError, match="assert_cardinality: expected_cardinality must be an"):
        Dataset.range(5).assert_cardinality(expected)


def test_a_task_that_sees_a_part_does_not_miss_the_rest(check_states):
    check_states(
        lambda: Dataset.range(12).assert_cardinality(12),
        [2, 3, 4],
        logs=[[(2, 5), None]],
        streams={".0": 0},
    )


def test_a_task_notices_that_its_part_alone_is_too_much(check_states):
    check_states(
        lambda: Dataset.range(12).assert_cardinality(2),
        [2, 3, wrong(2, "at least 3")],
        logs=[[(2, 5), None]],
        streams={".0": 0},
    )
