"""Coordinated reads of a real mesh: rounds, their end, consumers that leave and come back."""

from collections import Counter
from itertools import count

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConsumerLost, DatasetError, StateError, Superseded, TransformError
from tests.mesh.drivers import each, read_all

_names = count()


def job_name():
    return f"rounds {next(_names)}"


def consumer(cluster, dataset, index, consumers, name, mode="distributed_epoch", **given):
    return dataset.distribute(
        mode, cluster.target, name, consumer_index=index, num_consumers=consumers, **given
    )


def consumers(cluster, dataset, number, mode="distributed_epoch", **given):
    name = job_name()
    return [
        consumer(cluster, dataset, index, number, name, mode, **given) for index in range(number)
    ]


@pytest.mark.quick(1)
@pytest.mark.parametrize("number", [1, 2, 5])
def test_each_round_is_one_group_of_one_task_and_all_end_after_the_same(cluster, number):
    got = read_all(consumers(cluster, Dataset.range(500), number))

    assert len({len(mine) for mine in got}) == 1
    for round_ in zip(*got):
        # A task's elements are ranges of the input: one group holds neighbours, but at an edge.
        assert len(set(round_)) == number
    everything = Counter(x for mine in got for x in mine)
    assert set(everything.values()) == {1}
    tasks = 2
    assert 500 - tasks * (number - 1) <= len(everything) <= 500


def test_each_worker_gives_all_of_the_data_when_nothing_is_divided(cluster):
    got = read_all(consumers(cluster, Dataset.range(60), 3, "parallel_epochs"))

    for index, mine in enumerate(got):
        assert Counter(mine) == Counter([*range(index, 60, 3)] * 2)
    assert all(b == a + 1 == c - 1 for a, b, c in zip(*got))


@pytest.mark.slow
def test_batches_of_one_length_reach_all_consumers_in_one_round(cluster):
    def sentence(i):
        return np.full((7 * int(i)) % 23 + 1, i)

    def batches(_key, window):
        return window.padded_batch(4, drop_remainder=True)

    dataset = (
        Dataset.range(2000)
        .map(sentence)
        .group_by_window(lambda s: np.int64(len(s) // 8), batches, window_size=12)
    )
    # Three batches of a bucket in a row are one group; a window that is short makes none of it.
    got = each(list, consumers(cluster, dataset, 3, "parallel_epochs"))

    whole = [round_ for round_ in zip(*got) if len({batch.shape[1] // 8 for batch in round_}) == 1]
    assert len(got[0]) == len(got[1]) == len(got[2]) > 200
    assert len(whole) > 0.95 * len(got[0])


@pytest.mark.quick(1)
@pytest.mark.parametrize("behind", ["nothing", "batch", "prefetch", "map", "shuffle"])
def test_consumers_that_are_read_in_turn_in_one_thread_do_not_block(cluster, behind):
    add = {
        "nothing": lambda d: d,
        "batch": lambda d: d.batch(3),
        "prefetch": lambda d: d.prefetch(8),
        "map": lambda d: d.map(lambda x: x, 2),
        "shuffle": lambda d: d.shuffle(20, seed=3),
    }[behind]
    iterators = [iter(add(mine)) for mine in consumers(cluster, Dataset.range(300), 3)]

    got = [[] for _ in iterators]
    while True:
        elements = [next(iterator, None) for iterator in iterators]
        if elements[0] is None:
            assert elements == [None] * 3
            break
        for mine, element in zip(got, elements):
            mine.extend(np.atleast_1d(element).tolist())

    everything = Counter(x for mine in got for x in mine)
    assert set(everything.values()) == {1}
    assert len(everything) >= 300 - 2 * 2


@pytest.mark.slow
def test_operators_may_hold_any_number_of_rounds(cluster):
    datasets = consumers(cluster, Dataset.range(3000), 2)
    got = each(list, [one.shuffle(700, seed=1).batch(300) for one in datasets])

    everything = Counter(x for mine in got for batch in mine for x in batch.tolist())
    assert set(everything.values()) == {1}
    assert len(everything) >= 3000 - 2


@pytest.mark.quick(2)
@pytest.mark.parametrize("remainder", ["drop", "pad", "repeat"])
def test_what_fills_no_round_is_dropped_or_filled_up(cluster, remainder):
    datasets = consumers(cluster, Dataset.range(10), 4, "parallel_epochs", remainder=remainder)
    iterators = [iter(dataset) for dataset in datasets]
    rounds = []
    while (first := next(iterators[0], None)) is not None:
        elements = [first, *(next(iterator) for iterator in iterators[1:])]
        rounds.append((tuple(map(int, elements)), tuple(one.padding for one in iterators)))
    assert [next(iterator, None) for iterator in iterators] == [None] * 4

    short = {
        "drop": [],
        "pad": [((8, 9, 8, 9), (False, False, True, True))] * 2,
        "repeat": [((8, 9, 8, 9), (False,) * 4)] * 2,
    }[remainder]
    whole = [((0, 1, 2, 3), (False,) * 4), ((4, 5, 6, 7), (False,) * 4)] * 2
    assert sorted(rounds) == sorted(whole + short)


def test_in_order_all_tasks_have_their_turn(cluster):
    datasets = consumers(cluster, Dataset.range(40), 2, "parallel_epochs", ordered=True)
    first, second = read_all(datasets)

    assert first == [x for x in range(0, 40, 2) for _task in range(2)]
    assert second == [x + 1 for x in first]


def test_a_consumer_that_left_is_named_and_the_same_round_goes_on_when_it_is_back(cluster):
    dataset, name = Dataset.range(10_000), job_name()
    stays = iter(consumer(cluster, dataset, 0, 2, name))
    leaves = iter(consumer(cluster, dataset, 1, 2, name))
    for _ in range(5):
        next(stays), next(leaves)
    left_at = leaves.round
    leaves.close()

    with pytest.raises(ConsumerLost, match="consumer 1 .*left"):
        while True:
            next(stays)
    before = stays.round
    with iter(consumer(cluster, dataset, 1, 2, name, start_round=left_at)) as back:
        assert back.round == left_at
        for _ in range(left_at, before):
            next(back)
        a, b = int(next(stays)), int(next(back))
        assert (stays.round, back.round) == (before + 1, before + 1)

    assert abs(a - b) == 1
    stays.close()


@pytest.mark.slow
def test_of_two_processes_with_one_index_the_later_reads_on(cluster):
    dataset, name = Dataset.range(10_000), job_name()
    other = iter(consumer(cluster, dataset, 0, 2, name))
    earlier = iter(consumer(cluster, dataset, 1, 2, name))
    next(other), next(earlier)
    later = iter(consumer(cluster, dataset, 1, 2, name))

    with pytest.raises(Superseded, match="consumer 1"):
        while True:
            next(earlier)
    at = later.round
    assert isinstance(int(next(later)), int)
    assert later.round == at + 1
    for iterator in (earlier, later, other):
        iterator.close()


def test_a_round_that_cannot_be_had_is_refused_with_those_that_can(cluster):
    dataset, name = Dataset.range(10_000), job_name()
    with pytest.raises(DatasetError, match="7.*rounds 0 to 0"):
        iter(consumer(cluster, dataset, 0, 2, name, start_round=7))


def test_rounds_that_are_skipped_are_counted_and_the_others_come(cluster):
    datasets = consumers(cluster, Dataset.range(100), 2, "parallel_epochs", ordered=True)
    first, second = (iter(dataset.prefetch(4)) for dataset in datasets)
    next(first)
    first.skip_to(10)
    second.skip_to(10)

    assert (first.round, second.round) == (10, 10)
    assert (int(next(first)), int(next(second))) == (10, 11)
    assert (first.skipped, second.skipped) == (9, 10)
    with pytest.raises(DatasetError, match="round 11 .*5"):
        first.skip_to(5)
    first.close(), second.close()


@pytest.mark.slow
def test_a_state_at_a_round_goes_on_with_other_consumers(cluster):
    dataset, name = Dataset.range(600), job_name()

    def read(dataset):
        with iter(dataset) as elements:
            return [int(next(elements)) for _ in range(40)], elements.state()

    (one, state), (two, same) = each(read, consumers(cluster, dataset, 2))
    assert state == same

    def go_on(index):
        with consumer(cluster, dataset, index, 3, name).iterator(state) as elements:
            assert elements.round == 40
            return [int(x) for x in elements]

    after = each(go_on, range(3))

    everything = Counter(one + two) + Counter(x for mine in after for x in mine)
    assert set(everything.values()) == {1}
    assert len(everything) >= 600 - 2 * 2
    assert len({len(mine) for mine in after}) == 1


def test_a_state_of_rounds_fits_no_other_reads(cluster):
    (alone,) = consumers(cluster, Dataset.range(100), 1)
    with iter(alone) as elements:
        next(elements)
        state = elements.state()
    plain_job = Dataset.range(100).distribute("distributed_epoch", cluster.target, job_name())

    with pytest.raises(StateError, match="read in rounds, not without num_consumers"):
        plain_job.iterator(state)


def test_all_raise_an_error_in_the_same_round(cluster):
    def fails(i):
        if i == 20:
            raise RuntimeError("no twenty")
        return i

    datasets = consumers(cluster, Dataset.range(40).map(fails), 2, "parallel_epochs")

    def read(dataset):
        with iter(dataset) as elements:
            with pytest.raises(TransformError, match="no twenty") as caught:
                list(elements)
            return elements.round, str(caught.value)

    one, two = each(read, datasets)
    assert one == two


def test_a_job_with_other_consumers_is_refused(cluster):
    dataset, name = Dataset.range(100), job_name()
    with iter(consumer(cluster, dataset, 0, 2, name)):
        with pytest.raises(ValueError, match="num_consumers is 2, not 3"):
            iter(consumer(cluster, dataset, 0, 3, name))
        with pytest.raises(ValueError, match="remainder is 'drop', not 'pad'"):
            iter(consumer(cluster, dataset, 1, 2, name, remainder="pad"))


def test_what_has_no_rounds_says_so():
    with iter(Dataset.range(3)) as elements:
        with pytest.raises(DatasetError, match="coordinated reads"):
            elements.round  # noqa: B018
        with pytest.raises(DatasetError, match="coordinated reads"):
            elements.skip_to(1)
        with pytest.raises(DatasetError, match="coordinated reads"):
            elements.padding  # noqa: B018
        assert elements.skipped == 0
