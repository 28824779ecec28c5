"""One seed for a run: order and functions' chance are fixed, epochs differ, states continue."""

import json

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, StateError
from penstock.options import Options


def noisy(x, *, rng):
    return int(x) * 1000 + int(rng.integers(1000))


def drawn():
    """Return a dataset with chance of every kind: an order, functions, a choice, numbers."""
    mixed = Dataset.sample_from_datasets([Dataset.range(20), Dataset.range(100, 120)])
    return Dataset.zip((mixed.shuffle(8).map(noisy), Dataset.random().take(40)))


def plain(elements):
    return [(int(a), int(b)) for a, b in elements]


def by_options(seed):
    dataset = drawn().with_options(Options(seed=seed))
    return lambda: plain(dataset)


def by_iterator(seed):
    dataset = drawn()
    return lambda: plain(dataset.iterator(seed=seed))


@pytest.mark.parametrize("run_of", [by_options, by_iterator])
def test_runs_of_one_seed_are_equal_their_epochs_differ_and_another_seed_is_another_run(run_of):
    first, again, other = ([epoch() for _ in range(3)] for epoch in map(run_of, (7, 7, 8)))

    assert first == again
    assert len({str(epoch) for epoch in first + other}) == 6


def test_without_a_seed_each_run_is_another():
    assert plain(drawn()) != plain(drawn())


def test_zero_is_a_seed():
    assert by_options(0)() == by_options(0)()


def test_the_seed_of_the_iterator_wins_over_the_options_and_leaves_their_passes_alone():
    dataset = drawn().with_options(Options(seed=7))

    by_eight = plain(dataset.iterator(seed=8))
    first = plain(dataset)

    assert by_eight == by_options(8)()
    assert first == by_options(7)()


def test_of_several_options_the_last_seed_holds_and_one_that_says_nothing_changes_nothing():
    several = [
        drawn().with_options(Options(seed=7)).with_options(Options(seed=8)),
        drawn().with_options(Options(seed=8)).with_options(Options(threads=1)),
    ]

    one, two = map(plain, several)

    assert one == two


def test_a_seed_for_each_epoch_needs_no_epoch_before():
    dataset, anew = drawn(), drawn()

    third = [plain(dataset.iterator(seed=seed)) for seed in (1, 2, 3)][2]

    assert third == plain(anew.iterator(seed=3))


def test_a_shuffle_with_a_seed_of_its_own_keeps_it():
    dataset = Dataset.range(50).shuffle(50, seed=1)

    assert list(dataset) == list(dataset.with_options(Options(seed=7)))


def test_a_restored_pass_and_the_epochs_behind_it_are_those_of_the_run_that_was_interrupted():
    whole = by_options(7)
    epochs = [whole() for _ in range(3)]
    interrupted = drawn().with_options(Options(seed=7))
    plain(interrupted)
    with iter(interrupted) as elements:
        got = plain([next(elements) for _ in range(5)])
        state = json.dumps(elements.state())

    resumed = drawn().with_options(Options(seed=7))
    rest = plain(resumed.iterator(json.loads(state)))

    assert got + rest == epochs[1]
    assert plain(resumed) == epochs[2]


def test_a_state_goes_on_with_its_own_seed_whatever_is_given():
    seven = drawn().with_options(Options(seed=7))
    state = iter(seven).state()

    assert plain(drawn().with_options(Options(seed=8)).iterator(state)) == by_options(7)()
    assert plain(drawn().with_options(Options()).iterator(state, seed=9)) == by_options(7)()


@pytest.mark.parametrize("number", ["one", 0, 1.5])
def test_a_state_with_no_number_of_a_pass_is_refused(number):
    state = iter(drawn().with_options(Options(seed=7))).state() | {"pass": number}

    with pytest.raises(StateError, match="its pass is"):
        drawn().with_options(Options()).iterator(state)


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True, 2**63])
def test_a_seed_that_is_none_is_named(seed):
    with pytest.raises(DatasetError, match="iterator: seed must"):
        Dataset.range(3).iterator(seed=seed)


def test_a_seed_of_numpy_is_one():
    assert by_iterator(np.int64(7))() == by_iterator(7)()


def test_reduce_draws_by_the_seed_too():
    def total(state, x, *, rng):
        return state + int(x) + int(rng.integers(1000))

    def reduced(seed):
        return int(Dataset.range(9).with_options(Options(seed=seed)).reduce(0, total))

    assert reduced(7) == reduced(7) != reduced(8)
