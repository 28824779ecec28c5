"""What operators behind `distribute` hold is saved with the job, with real processes."""

import logging
from collections import Counter
from threading import Barrier

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from tests.mesh.drivers import each

DYNAMIC = "distributed_epoch"
DOCUMENTS, TOKENS, SIZE = 120, 7, 5


def document(i):
    return np.arange(TOKENS) + TOKENS * int(i)


def packed(target, **how):
    return Dataset.range(DOCUMENTS).map(document).distribute(DYNAMIC, target, **how).rebatch(SIZE)


@pytest.mark.quick(1)
@pytest.mark.parametrize("ordered", [True, False])
def test_one_reader_gets_each_token_once_through_saves_and_killed_workers(another, ordered):
    with another(workers=2) as cluster:
        dataset, seen, state = packed(cluster.target, ordered=ordered), [], None
        for life in range(6):
            with dataset.iterator(state) as it:
                for k, batch in enumerate(it):
                    seen += batch.tolist()
                    if k == 20 and life < 5:
                        state = it.state()
                        break
            if life == 2:
                cluster.workers[0].kill()

    assert Counter(seen) == Counter(range(DOCUMENTS * TOKENS))
    assert not ordered or seen == sorted(seen)


def shuffled(target, **how):
    return Dataset.range(600).distribute(DYNAMIC, target, **how).shuffle(20, seed=1).batch(2)


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
def test_one_reader_gets_each_shuffled_element_once_through_restores(cluster, ordered):
    dataset, seen, state = shuffled(cluster.target, ordered=ordered), [], None
    for _ in range(5):
        with dataset.iterator(state) as it:
            seen += [int(x) for _ in range(30) for x in next(it)]
            state = it.state()
    with dataset.iterator(state) as it:
        seen += [int(x) for batch in it for x in batch]

    assert sorted(seen) == list(range(600))
    if ordered:
        local = Dataset.range(600).shuffle(20, seed=1)
        assert seen == [int(x) for x in local]


def bucketed(target, **how):
    d = Dataset.range(600).distribute(DYNAMIC, target, **how)
    return d.bucket_by_sequence_length(lambda x: x % 7, [2, 4], [3, 2, 4])


@pytest.mark.slow
def test_one_reader_gets_each_bucket_as_it_would_have_come(cluster):
    dataset, seen, state = bucketed(cluster.target, ordered=True), [], None
    for _ in range(5):
        with dataset.iterator(state) as it:
            seen += [next(it).tolist() for _ in range(20)]
            state = it.state()
    with dataset.iterator(state) as it:
        seen += [batch.tolist() for batch in it]

    local = Dataset.range(600).bucket_by_sequence_length(lambda x: x % 7, [2, 4], [3, 2, 4])
    assert seen == [batch.tolist() for batch in local]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "ordered"),
    [(packed, True), (packed, False), (shuffled, True), (bucketed, True)],
)
def test_consumers_continue_each_with_its_own_state(cluster, build, ordered):

    def read(job, k, steps, state=None):
        name = f"{build.__name__} {job} {ordered}"
        how = {"ordered": ordered, "consumer_index": k, "num_consumers": 2, "job_name": name}
        with build(cluster.target, **how).iterator(state) as it:
            out = [next(it).tolist() for _ in range(steps)]
            saved = it.state()
            return out, saved, [next(it).tolist() for _ in range(30)]

    first = each(lambda k: read("a", k, 17), range(2))
    again = each(lambda k: read("b", k, 30, first[k][1]), range(2))

    assert [one[0] for one in again] == [one[2] for one in first]


def test_another_number_of_consumers_begins_operators_anew_and_loses_nothing(one_worker, caplog):
    how = {"ordered": True, "num_consumers": 1, "job_name": "one"}
    with packed(one_worker.target, consumer_index=0, **how).iterator() as it:
        seen = [next(it) for _ in range(9)]
        state = it.state()

    def go_on(k):
        how = {"ordered": True, "num_consumers": 2, "job_name": "two"}
        return list(packed(one_worker.target, consumer_index=k, **how).iterator(state))

    with caplog.at_level(logging.WARNING, "penstock.reader"):
        rest = sum(each(go_on, range(2)), [])

    assert "the state was taken by consumer 0 of 1, this is consumer 1 of 2" in caplog.text
    counts = Counter(int(t) for batch in (*seen, *rest) for t in batch)
    assert counts.keys() == set(range(DOCUMENTS * TOKENS))


@pytest.mark.slow
def test_readers_that_share_a_job_lose_no_token_when_one_goes_on_for_both(cluster):

    both_read = Barrier(2)

    def read(_):
        with packed(cluster.target, job_name="shared and saved").iterator() as it:
            seen = [next(it)]
            both_read.wait(60)
            return [*seen, *(next(it) for _ in range(8))], it.state()

    (mine, state), (yours, _) = each(read, range(2))
    with packed(cluster.target, job_name="resumed").iterator(state) as it:
        rest = list(it)

    counts = Counter(int(t) for batch in (*mine, *yours, *rest) for t in batch)
    assert counts.keys() == set(range(DOCUMENTS * TOKENS))


@pytest.mark.slow
@pytest.mark.parametrize("build", [shuffled, bucketed])
def test_readers_that_share_a_job_get_each_element_held_back_once_between_them(cluster, build):

    both_read = Barrier(2)
    name = build.__name__

    def read(_):
        with build(cluster.target, job_name=f"{name}, shared").iterator() as it:
            seen = [next(it)]
            both_read.wait(60)
            return [*seen, *(next(it) for _ in range(40))], it.state()

    def go_on(state):
        return list(build(cluster.target, job_name=f"{name}, resumed").iterator(state))

    first = each(read, range(2))
    rest = each(go_on, [state for _, state in first])

    batches = [
        batch for seen in ([seen for seen, _ in first], rest) for one in seen for batch in one
    ]
    assert sorted(int(x) for batch in batches for x in batch) == list(range(600))
