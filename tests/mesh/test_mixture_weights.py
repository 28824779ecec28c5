"""Weights that change while a mixture is read: the sequence is that of the recorded stages."""

import json
import time
from collections import deque

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.protocol.mixture import WeightStage
from penstock.protocol.turns import Turns
from penstock.service import set_weights
from penstock_cluster.cli.status import fetch
from tests.mesh.drivers import each, side_by_side

DYNAMIC = "distributed_epoch"
FAR = 1_000_000


def slow(x):
    """Take as long as decoding does, so that workers are not far ahead of readers."""
    time.sleep(0.0005)
    return x


def mixed(turns_per_task=32, weights=None, stop="repeat", size=700):
    """Return a mixture whose elements tell their source and number."""
    web = Dataset.range(size).map(slow)
    code = Dataset.range(FAR, FAR + 10_000).map(slow)
    weights = {"web": 0.75, "code": 0.25} if weights is None else weights
    sources = {"web": web, "code": code}
    return Dataset.mixture(sources, weights, stop=stop, seed=3, turns_per_task=turns_per_task)


def expected(stages, count, stop="repeat", size=700):
    """Return the first *count* elements of the mixture with these stages."""
    turns = Turns([WeightStage(*each) for each in stages], (size, 10_000), stop, None, 3)
    given, out = [0, 0], []
    for source in turns.sources(0, count):
        out.append(given[0] % size if source == 0 else FAR + given[1] % 10_000)
        given[source] += 1
    return out


def consumers(dataset, target, count, job):
    return [
        dataset.distribute(
            DYNAMIC, target, job, ordered=True, consumer_index=k, num_consumers=count
        )
        for k in range(count)
    ]


class Loops:
    """Consumers that take one element each in turn, as ranks do in step."""

    def __init__(self, datasets, state=None):
        self.iterators = each(lambda one: one.iterator(state), datasets)

    def take(self, count):
        return [int(next(self.iterators[i % len(self.iterators)])) for i in range(count)]

    def save(self):
        states = each(lambda one: one.state(), self.iterators)
        side_by_side(*[one.close for one in self.iterators])
        return states[0]

    def rest(self, place=0):
        """Take all that is left, from the element at *place* of the order on."""
        found = each(lambda one: deque(int(x) for x in one), self.iterators)
        places = range(place, place + sum(map(len, found)))
        return [found[at % len(found)].popleft() for at in places]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1), (3, 2), (3, 8)])
def test_a_job_whose_weights_changed_gives_the_recorded_sequence_after_any_restart(
    clusters, request, first, then
):
    dataset, job = mixed().take(2400), request.node.name
    with clusters.own(workers=2) as mesh:
        loops = Loops(consumers(dataset, mesh.target, first, job))
        got = loops.take(300)
        one = set_weights(mesh.target, job, {"web": 0.2, "code": 0.8})
        mesh.dispatcher.kill()
        mesh.dispatcher.restart()
        assert set_weights(mesh.target, job, {"web": 0.2, "code": 0.8}) == one

        got += loops.take(600)
        two = set_weights(mesh.target, job, {"web": 1})
        three = set_weights(mesh.target, job, {"web": 1, "code": 1}, at=two + 600)
        state = loops.save()
    with clusters.own(workers=1) as mesh:
        loops = Loops(consumers(dataset, mesh.target, then, job), state)
        got += loops.rest(len(got))

    stages = [(0, (3, 1)), (one, (1, 4)), (two, (1, 0)), (three, (1, 1))]
    assert got == expected(stages, 2400)
    assert 300 <= one < two < three == two + 600


def test_new_weights_hold_within_a_few_tasks_and_status_shows_them(one_worker, request):
    dataset, job = mixed().take(1500), request.node.name
    loops = Loops(consumers(dataset, one_worker.target, 1, job))
    got = loops.take(100)

    with pytest.raises(DatasetError, match=r"cannot change at turn 7: .* Give at=\d+"):
        set_weights(one_worker.target, job, {"web": 1}, at=7)
    begin = set_weights(one_worker.target, job, {"web": 0.5, "code": 0.5})
    passes = json.loads(fetch(one_worker.target))["iterations"]
    got += loops.rest()

    assert begin < 100 + 32 * 32
    assert got == expected([(0, (3, 1)), (begin, (1, 1))], 1500)
    ((mixture,),) = [one["mixtures"] for one in passes if one["job"] == job]
    assert [one["name"] for one in mixture["sources"]] == ["web", "code"]
    assert mixture["spans"][-1]["wanted"] == [0.5, 0.5]
    assert mixture["spans"][-1]["begin"] == begin
    assert mixture["spans"][0]["handed"] == [3 * begin // 4, begin // 4]
    assert sum(one["handed"] for one in mixture["sources"]) == mixture["turn"] >= begin


def test_a_mixture_that_ends_with_a_source_may_have_more_turns_by_a_change(one_worker, request):
    dataset, job = mixed(stop="first", size=300), request.node.name
    loops = Loops(consumers(dataset, one_worker.target, 1, job))
    got = loops.take(10)

    begin = set_weights(one_worker.target, job, {"web": 1, "code": 3})
    got += loops.rest()

    assert begin < 300
    assert got == expected([(0, (3, 1)), (begin, (1, 3))], 5000, "first", 300)
    assert len(got) > 800


def test_tasks_without_an_order_give_the_elements_of_the_recorded_sequence(cluster, request):
    dataset, job = mixed().take(1500), request.node.name
    with iter(dataset.distribute(DYNAMIC, cluster.target, job)) as elements:
        got = [int(next(elements)) for _ in range(20)]
        begin = set_weights(cluster.target, job, {"code": 1})
        got += [int(x) for x in elements]

    assert sorted(got) == sorted(expected([(0, (3, 1)), (begin, (0, 1))], 1500))


@pytest.mark.slow
def test_coordinated_rounds_give_the_elements_of_the_recorded_sequence(cluster, request):
    dataset, job = mixed().take(960), request.node.name
    two = [
        dataset.distribute(DYNAMIC, cluster.target, job, consumer_index=k, num_consumers=2)
        for k in range(2)
    ]
    loops = Loops(two)
    got = loops.take(20)
    begin = set_weights(cluster.target, job, {"code": 1})
    got += loops.rest()

    recorded = expected([(0, (3, 1)), (begin, (0, 1))], 960)
    assert set(got) <= set(recorded)
    assert len(recorded) - 8 <= len(got) == len(set(got))


def test_the_next_epoch_begins_with_the_newest_weights(one_worker, request):
    dataset, job = mixed().take(64), request.node.name
    distributed = dataset.distribute(DYNAMIC, one_worker.target, job, ordered=True)
    first = [int(x) for x in distributed]

    assert set_weights(one_worker.target, job, {"code": 1}) == 0
    second = [int(x) for x in distributed]

    assert first == expected([(0, (3, 1))], 64)
    assert second == expected([(0, (0, 1))], 64)


def test_a_job_without_a_mixture_by_turns_is_refused(one_worker, request):
    numbers = Dataset.range(100).distribute(DYNAMIC, one_worker.target, request.node.name)
    with iter(numbers) as elements:
        next(elements)
        with pytest.raises(DatasetError, match="reads no mixture"):
            set_weights(one_worker.target, request.node.name, {"web": 1})


def test_only_the_outer_one_of_nested_mixtures_changes(one_worker, request):
    inner = Dataset.mixture(
        {"de": Dataset.range(100), "fr": Dataset.range(100, 200)}, {"de": 1, "fr": 1}
    )
    outer = Dataset.mixture(
        {"text": inner, "code": Dataset.range(FAR, FAR + 100)}, {"text": 1, "code": 1}
    )
    job = request.node.name
    with iter(outer.take(100_000).distribute(DYNAMIC, one_worker.target, job)) as elements:
        next(elements)
        with pytest.raises(DatasetError, match="'de'"):
            set_weights(one_worker.target, job, {"de": 1})
        assert set_weights(one_worker.target, job, {"code": 1}) > 0
