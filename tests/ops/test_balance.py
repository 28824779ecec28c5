import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError, TransformError
from tests.ops.packs import balanced


def elements(costs):
    return Dataset.from_sequence(list(enumerate(costs)))


def second(number, cost):  # noqa: ARG001
    return cost


COSTS = [9, 2, 5, 8, 1, 4, 4, 7, 3, 3, 6, 0, 5, 2, 8, 1, 9]


@pytest.mark.quick(2)
@pytest.mark.parametrize(("consumers", "window"), [(2, 6), (3, 8), (4, 100), (1, 1), (5, 5)])
def test_rounds_are_those_of_a_slow_model_from_every_state(check_states, consumers, window):
    check_states(
        lambda: elements(COSTS).balance(consumers, second, window),
        [(i, COSTS[i]) for i in balanced(COSTS, consumers, window)],
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    costs=st.lists(st.integers(0, 9), max_size=60),
    consumers=st.integers(1, 8),
    more=st.integers(0, 30),
)
def test_each_element_comes_once_and_rounds_cost_least_together(costs, consumers, more):
    window = consumers + more
    seen = [int(i) for i, _ in elements(costs).balance(consumers, second, window)]

    assert sorted(seen) == list(range(len(costs)))
    assert seen == balanced(costs, consumers, window)


def test_eight_ranks_wait_little_for_the_longest_of_their_documents():
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(6, 1, 8192).astype(int) + 1

    def imbalance(dataset):
        rounds = np.array([len(x) for x in dataset]).reshape(-1, 8)
        return rounds.max(1).sum() / rounds.mean(1).sum()

    arrays = Dataset.from_sequence(lengths.tolist()).map(np.ones)

    assert imbalance(arrays.balance(8)) < 1.1
    assert imbalance(arrays) > 2


def test_the_cost_is_the_number_of_tokens_unless_a_function_says_another():
    docs = Dataset.from_sequence([1, 5, 2, 6]).map(lambda n: {"tokens": np.zeros(n), "id": n})

    assert [int(x["id"]) for x in docs.balance(2)] == [1, 2, 5, 6]
    assert [int(x["id"]) for x in docs.balance(2, lambda x: x["id"] % 3)] == [1, 6, 5, 2]


def test_a_short_round_comes_last_and_costs_least():
    assert [int(i) for i, _ in elements([1, 9, 8, 7, 6]).balance(2, second)] == [1, 2, 3, 4, 0]


def test_errors_of_the_input_come_once_and_in_their_place(check_states):
    def fussy(number, cost):
        if number % 5 == 3:
            raise ValueError("bad")
        return number, cost

    check_states(lambda: elements(COSTS).map(fussy).balance(2, second, 4), max_state=1500)


@pytest.mark.parametrize("answer", [None, "3", float("nan"), float("inf"), np.ones(2)])
def test_a_cost_that_is_no_number_is_an_error_of_its_element(answer):
    it = iter(elements([4, 5]).balance(2, lambda i, cost: answer if i == 0 else cost))

    with pytest.raises(TransformError, match=r"element 0: .*cost must return a finite number, not"):
        next(it)
    assert [int(i) for i, _ in it] == [1]


def test_an_element_without_tokens_needs_a_cost():
    it = iter(Dataset.range(3).balance(2))

    with pytest.raises(ElementError, match="but it is int64: give cost=, a function"):
        next(it)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"num_consumers": 0}, "num_consumers must be an integer of at least 1, not 0"),
        ({"window": 0}, "window must be an integer of at least 1, not 0"),
        ({"window": 3}, "window must be at least num_consumers, 4, not 3"),
        ({"cost": 3}, "cost must be callable or None, not 3"),
    ],
)
def test_bad_arguments_are_refused_at_once(kwargs, match):
    with pytest.raises(DatasetError, match=f"^balance: {match}"):
        elements([1]).balance(**{"num_consumers": 4, **kwargs})


def test_the_number_of_elements_stays_the_same():
    assert Dataset.range(7).balance(2, abs).cardinality() == 7


def test_the_imbalance_of_whole_rounds_is_counted():
    elements = iter(Dataset.from_sequence([1, 5, 2, 6, 9]).map(np.zeros).balance(2))
    assert [len(x) for x in elements] == [5, 2, 6, 9, 1]

    (found,) = elements.stats().figures
    assert found.imbalance == pytest.approx((5 + 9) / (3.5 + 7.5))
