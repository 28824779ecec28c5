"""`mixture` of datasets without an index, and by the size of elements."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.analysis.ordering import why_unordered
from penstock.analysis.sharding import split_providers
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, StateError, TransformError
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.protocol.mixture import stages_of
from penstock.protocol.turns import Turns

WEIGHTS = {"a": 3, "b": 1, "c": 1}
SIZES = {"a": 9, "b": 5, "c": 12}


def numbers(name):
    first = 100 * "abc".index(name)
    return range(first, first + SIZES[name])


def stream(name):
    return Dataset.from_generator(lambda: iter(numbers(name)))


def mix(datasets=None, weights=None, **more):
    datasets = datasets or {name: stream(name) for name in SIZES}
    return Dataset.mixture(datasets, weights or WEIGHTS, **more)


def ints(elements):
    return [int(each) for each in elements]


def sources(made):
    return [x // 100 for x in made]


@pytest.mark.quick(2)
@pytest.mark.parametrize("stop", ["repeat", "drop", "first", "all"])
def test_states_are_exact(check_states, stop):
    check_states(lambda: mix(stop=stop).take(50))


def test_shares_hold_over_what_comes_out_of_filters():
    odd = {name: stream(name).filter(lambda x: x % 2 == 1) for name in SIZES}

    made = sources(ints(mix(odd).take(200)))

    assert made == list(Turns(stages_of(WEIGHTS, tuple(SIZES)), (None,) * 3).sources(0, 200))


def test_a_dataset_that_repeats_gives_pass_after_pass():
    made = ints(mix().take(120))

    assert [x for x in made if x < 100] == [*numbers("a")] * 8


def test_a_dataset_with_an_order_of_its_own_is_shuffled_anew_in_each_pass():
    shuffled = {name: stream(name).shuffle(20, seed=3) for name in SIZES}

    first, second, *_ = np.split(np.array([x for x in mix(shuffled).take(120) if x < 100]), 8)

    assert sorted(first) == sorted(second)
    assert first.tolist() != second.tolist()


def test_the_others_share_the_turns_of_a_dataset_that_has_ended():
    made = ints(mix(stop="drop"))

    assert sorted(made) == sorted(x for name in SIZES for x in numbers(name))


def test_a_dataset_leaves_after_its_last_epoch():
    made = ints(mix(max_epochs={"a": 2, "b": 1, "c": 3}))

    assert [made.count(numbers(name)[0]) for name in SIZES] == [2, 1, 3]
    assert len(made) == 18 + 5 + 36


def test_the_first_dataset_that_ends_may_end_all():
    made = sources(ints(mix(stop="first")))

    assert made.count(0) == 9
    assert len(made) < 20


def test_all_ends_when_each_dataset_has_given_a_pass():
    made = ints(mix(stop="all"))

    assert {*made} == {x for name in SIZES for x in numbers(name)}
    assert made.count(numbers("c")[0]) == 1


def test_a_mixture_may_be_mixed_again(check_states):
    def make():
        inner = mix({"a": stream("a"), "b": stream("b")}, {"a": 1, "b": 1}, stop="drop")
        return mix({"inner": inner, "c": stream("c")}, {"inner": 1, "c": 2}, stop="first")

    check_states(make)


# --- by size ---


def texts(name, size):
    return Dataset.range(numbers(name)[0], numbers(name)[-1] + 1).map(
        lambda x: np.full(size + int(x) % 3, int(x))
    )


def long_and_short():
    return {"a": texts("a", 40), "b": texts("b", 1), "c": texts("c", 9)}


@pytest.mark.quick(1)
@pytest.mark.parametrize("stop", ["repeat", "drop", "first", "all"])
def test_states_are_exact_by_size(check_states, stop):
    check_states(lambda: mix(long_and_short(), unit="tokens", length=len, stop=stop).take(50))


def test_shares_of_tokens_are_off_by_less_than_one_long_element():
    made = mix(long_and_short(), unit="tokens", length=len).take(2000)

    got, longest = [0, 0, 0], 42
    for element in made:
        got[int(element[0]) // 100] += len(element)
        for count, part in zip(got, (3, 1, 1), strict=True):
            assert abs(count - sum(got) * part / 5) <= longest


@pytest.mark.parametrize("stop", ["repeat", "drop", "first", "all"])
def test_a_dataset_of_elements_without_tokens_does_not_take_all_turns(stop):
    def rows(length):
        return Dataset.range(20).map(lambda _: np.zeros(length))

    datasets, weights = {"none": rows(0), "few": rows(1)}, {"none": 3, "few": 1}
    made = mix(datasets, weights, unit="tokens", length=len, stop=stop)

    given = [len(x) for x in made.take(16)]

    assert given.count(0) == 12
    assert given.count(1) == 4


def test_shares_of_tokens_follow_weights_that_change():
    points = [(0, {"a": 1, "c": 1}), (500, {"a": 1, "c": 1}), (501, {"c": 1, "b": 1})]

    made = list(mix(long_and_short(), points, unit="bytes", length=len).take(1500))

    sizes = [0, 0, 0]
    for element in made[501:]:
        sizes[int(element[0]) // 100] += len(element)
    assert sizes[0] == 0
    assert abs(sizes[1] - sizes[2]) < 60


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (lambda x: 0.5, "length must return an integer of at least 0, not 0.5"),
        (lambda x: -1, "length must return an integer of at least 0, not -1"),
        (lambda x: 1 // (int(x[0]) % 5), "ZeroDivisionError"),
    ],
)
def test_an_element_of_no_length_fails_in_its_place(length, said):
    with pytest.raises(TransformError, match=said):
        list(mix(long_and_short(), unit="tokens", length=length).take(20))


@pytest.mark.slow
def test_states_are_exact_where_lengths_fail(check_states):
    def length(x):
        return 1 // (int(x[0]) % 4 > 0)

    check_states(lambda: mix(long_and_short(), unit="tokens", length=length, stop="drop"))


# --- what is known before it runs ---


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, INFINITE),
        ({"stop": "drop"}, UNKNOWN),
        ({"stop": "first"}, UNKNOWN),
        ({"stop": "all"}, UNKNOWN),
        ({"max_epochs": 3}, UNKNOWN),
    ],
)
def test_how_many_elements_there_are(more, expected):
    assert mix(**more).cardinality() == expected


def test_with_sizes_that_are_known_the_number_of_elements_is_known():
    some = {"a": Dataset.range(5).shuffle(3), "b": Dataset.range(7)}

    assert mix(some, {"a": 1, "b": 1}, stop="drop").cardinality() == 12
    assert mix(some, {"a": 1, "b": 1}, max_epochs={"a": 2, "b": 1}).cardinality() == 17


def test_one_order_is_refused_and_the_dataset_that_prevents_it_is_named():
    ds = mix({"a": Dataset.range(5), "b": Dataset.range(7).shuffle(3)}, {"a": 1, "b": 1})

    said = why_unordered(ds.node, split_providers(ds.node))

    assert said.startswith("ordered=True: mixture mixes what each task reads, because shuffle of ")
    assert "'b' has no index of its elements" in said
    assert "shuffle these by global_shuffle" in said


def test_tokens_have_no_one_order_either():
    ds = mix(long_and_short(), unit="tokens", length=len)

    assert "unit='tokens' each turn depends on the tokens" in why_unordered(
        ds.node, split_providers(ds.node)
    )


def test_visitation_says_that_each_task_mixes_by_itself():
    ds = mix({"a": Dataset.range(5), "b": Dataset.range(7).shuffle(3)}, {"a": 1, "b": 1})

    told = str(ds.distribute("distributed_epoch", "localhost:1").visitation())

    assert "mixture sees each task's own part: each mixes the elements that it drew" in told


def test_a_state_of_another_mixture_is_refused():
    iterator = mix().iterator()
    next(iterator)

    with pytest.raises(StateError, match="other names, weights, stop, seed or unit"):
        next(mix(weights={"a": 1, "b": 1, "c": 1}).iterator(iterator.state()))


def test_a_dataset_without_elements_is_refused():
    with pytest.raises(DatasetError, match="the dataset 'b' has no elements: leave it out"):
        mix({"a": stream("a"), "b": Dataset.range(3).shuffle(2).take(0)}, {"a": 1})


def test_what_each_dataset_gave_is_counted_in_the_unit_of_the_mixture():
    def rows(length):
        return Dataset.range(50).map(lambda i: np.zeros(length))

    mixed = Dataset.mixture(
        {"web": rows(3), "code": rows(6)}, {"web": 0.5, "code": 0.5}, unit="tokens", length=len
    )
    elements = iter(mixed.take(30))
    given = [len(x) for x in elements]

    (found,) = elements.stats().figures
    assert (found.operator, found.unit) == ("mixture", "tokens")
    assert found.made >= sum(given)
    assert found.shares["web"] == pytest.approx(0.5, abs=0.05)
