"""One order that goes to several consumers, whatever the mesh looks like and what happens to it."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, JobMismatch
from penstock.runtime.event_loop import LoopThread
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from tests.mesh.drivers import each, read_all

DYNAMIC = "distributed_epoch"


def slow(x):
    time.sleep(0.0005)
    return 2 * x


def consumers(dataset, target, count, job, **more):
    """Return what each of *count* consumers reads."""
    return [
        dataset.distribute(
            DYNAMIC, target, job, ordered=True, consumer_index=k, num_consumers=count, **more
        )
        for k in range(count)
    ]


def by_turns(values, count):
    return [list(values[k::count]) for k in range(count)]


@pytest.mark.slow
def test_consumer_k_of_n_gets_every_nth_element_on_one_worker_on_two_and_on_five(clusters, request):
    kept = Dataset.range(700).map(slow).filter(lambda x: bool(x % 3))
    wanted = [2 * x for x in range(700) if 2 * x % 3]
    for workers in (1, 2):
        target = clusters.shared(workers=workers).target
        for count in (1, 3):
            job = f"{request.node.name} {workers} {count}"
            assert read_all(consumers(kept, target, count, job)) == by_turns(wanted, count)
    with clusters.own(workers=5) as mesh:
        assert read_all(consumers(kept, mesh.target, 3, "five")) == by_turns(wanted, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [3, 40])
def test_splits_without_elements_move_nothing(clusters, request, kept):
    far = Dataset.range(2000).map(slow).filter(lambda x: bool(x % 200 < 2 * kept))
    wanted = [2 * x for x in range(2000) if 2 * x % 200 < 2 * kept]
    target = clusters.shared(workers=2).target

    assert read_all(consumers(far, target, 3, request.node.name)) == by_turns(wanted, 3)


@pytest.mark.slow
def test_a_process_that_takes_the_place_of_another_goes_on_behind_it(cluster, request):
    numbers, wanted = Dataset.range(400).map(slow), [2 * x for x in range(400)]
    one, two = consumers(numbers, cluster.target, 2, request.node.name)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: [int(x) for x in two])
        with iter(one) as first:
            got = [int(next(first)) for _ in range(60)]
        with iter(again(one)) as second:
            got += [int(x) for x in second]

        assert got == wanted[::2]
        assert other.result(60) == wanted[1::2]


def again(dataset):
    """Return *dataset* as another process would read it: its first pass once more."""
    return pickle.loads(pickle.dumps(dataset))


def test_there_are_no_rounds(cluster, request):
    with iter(consumers(Dataset.range(9), cluster.target, 2, request.node.name)[0]) as elements:
        with pytest.raises(DatasetError, match="num_consumers, without ordered=True"):
            _ = elements.round
        with pytest.raises(DatasetError, match="without ordered=True"):
            elements.skip_to(3)


def test_all_consumers_give_the_same_number(cluster, request):
    numbers = Dataset.range(10)
    with iter(consumers(numbers, cluster.target, 2, request.node.name)[0]):
        with pytest.raises(JobMismatch, match=r"num_consumers \(with ordered=True\) is 2, not 3"):
            iter(consumers(numbers, cluster.target, 3, request.node.name)[0])
        shared = numbers.distribute(DYNAMIC, cluster.target, request.node.name, ordered=True)
        with pytest.raises(JobMismatch, match="is 2, not None"):
            iter(shared)


def test_a_loop_is_told_which_consumer_is_not_there(cluster, request):
    (one, _) = consumers(Dataset.range(100_000), cluster.target, 2, request.node.name, timeout=600)
    with iter(one) as elements:
        for _ in range(100):
            next(elements)
        deadline = time.monotonic() + 20
        while "consumer 1 of 2, of which no reader is there" not in _waits(cluster):
            assert time.monotonic() < deadline, _waits(cluster)
            time.sleep(0.05)


def _waits(cluster):
    async def ask():
        async with connect(cluster.dispatcher.address) as channel:
            return str(await DispatcherClient(channel).status())

    with LoopThread.shared() as loop:
        return str(loop.run(ask(), 10))


@pytest.mark.parametrize(
    "asked", [{"remainder": "pad"}, {"patience": 0}, {"start_round": 3}], ids=str
)
def test_what_only_rounds_have_is_refused_at_once(asked):
    with pytest.raises(DatasetError, match="is for rounds, and with ordered=True .* none"):
        consumers(Dataset.range(9), "localhost:1", 2, "j", **asked)


def test_a_pipeline_that_has_no_one_order_is_read_in_rounds(cluster, request):
    batches = Dataset.range(64).shuffle(8).batch(4)
    two = consumers(batches, cluster.target, 2, request.node.name)
    got = each(lambda one: [x.tolist() for x in one], two)

    assert len(got[0]) == len(got[1])
    with iter(consumers(batches, cluster.target, 2, f"{request.node.name} 2")[0]) as elements:
        assert elements.round == 0
