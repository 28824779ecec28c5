import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, TransformError
from penstock.graph.node import UNKNOWN
from penstock.graph.run import open_root


def is_odd(x):
    return x % 2 == 1


def picky(x):
    if x in (0, 4, 5, 12):
        raise ValueError(f"not {x}")
    return x % 3 == 1


def test_an_error_belongs_to_its_element(check_states):
    def failed(i):
        return TransformError("filter(picky)", i, f"ValueError: not {i}")

    check_states(
        lambda: Dataset.range(13).filter(picky),
        [failed(0), 1, failed(4), failed(5), 7, 10, failed(12)],
    )


def test_a_restored_filter_decides_no_element_again(counted):
    fn = counted(lambda x: x % 10 == 0)
    it = iter(Dataset.range(1000).filter(fn))
    for _ in range(40):
        next(it)
    state = it.state()
    fn.calls.clear()

    restored = Dataset.range(1000).filter(fn).iterator(state)

    assert next(restored) == 400
    assert min(fn.calls) > 390


def test_a_predicate_may_return_any_single_bool():
    answers = [True, np.bool_(True), np.array(True), np.array([True])[0]]

    for answer in answers:
        assert list(Dataset.range(2).filter(lambda x, answer=answer: answer)) == [0, 1]


@pytest.mark.parametrize("answer", [1, None, "yes", np.array([True, False]), np.int64(1), 0.0, ()])
def test_other_answers_are_an_error_that_says_what_to_do(check_states, answer):
    def vague(x):
        return answer if x == 2 else True

    whole = check_states(lambda: Dataset.range(4).filter(vague))

    assert whole[2].text.startswith(
        "filter(vague) failed at element 2: DatasetError: the predicate"
    )
    assert "must return one bool" in whole[2].text
    assert len(whole) == 4


def test_random_decisions_survive_a_restore(check_states):
    check_states(lambda: Dataset.range(30).filter(lambda x, *, rng: rng.random() < 0.3).repeat(2))


def test_to_skip_passes_over_errors_in_silence():
    run = open_root(Dataset.range(13).filter(picky).node, Context.local(1))

    assert run.skip(2) == 2
    assert run.block(1) == [10]
    assert run.skip(5) == 0


def test_a_tuple_is_unpacked():
    pairs = Dataset.range(6).enumerate(10)

    assert list(pairs.filter(lambda i, x: i == 13)) == [(13, 3)]


def test_the_cardinality_is_unknown():
    assert Dataset.range(3).filter(is_odd).cardinality() == UNKNOWN


def test_a_predicate_must_be_callable():
    with pytest.raises(DatasetError, match="filter: predicate must be callable, not 3"):
        Dataset.range(3).filter(3)
