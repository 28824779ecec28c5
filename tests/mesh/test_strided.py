"""One order that goes to several consumers, whatever the mesh looks like and what happens to it."""

import os
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, JobMismatch, TransformError
from penstock.runtime.event_loop import LoopThread
from penstock.service import from_dataset_id, register_dataset
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient

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


def all_of(datasets):
    """Read datasets side by side; return what each gave."""
    with ThreadPoolExecutor(len(datasets)) as pool:
        return list(pool.map(lambda dataset: [int(x) for x in dataset], datasets))


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
            assert all_of(consumers(kept, target, count, job)) == by_turns(wanted, count)
    with clusters.own(workers=5) as mesh:
        assert all_of(consumers(kept, mesh.target, 3, "five")) == by_turns(wanted, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [3, 40])
def test_splits_without_elements_move_nothing(clusters, request, kept):
    far = Dataset.range(2000).map(slow).filter(lambda x: bool(x % 200 < 2 * kept))
    wanted = [2 * x for x in range(2000) if 2 * x % 200 < 2 * kept]
    target = clusters.shared(workers=2).target

    assert all_of(consumers(far, target, 3, request.node.name)) == by_turns(wanted, 3)


@pytest.mark.slow
def test_the_order_outlives_workers_drains_and_the_dispatcher(another):
    with another(workers=4) as mesh:
        one, two = consumers(Dataset.range(3000).map(slow), mesh.target, 2, "hostile")
        got = [], []

        def follow():
            for x in two:
                got[1].append(int(x))

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        for x in one:
            got[0].append(int(x))
            match len(got[0]):
                case 200 | 400 as at:
                    mesh.workers[at // 200 - 1].kill()
                case 600:
                    mesh.dispatcher.kill()
                    mesh.dispatcher.restart()
                case 800:
                    mesh.add_worker()
                    os.kill(mesh.workers[2].pid, signal.SIGTERM)
        thread.join(60)

    assert got == tuple(by_turns([2 * x for x in range(3000)], 2))


@pytest.mark.slow
def test_a_saved_state_goes_on_with_another_number_of_consumers_and_workers(another):
    numbers, wanted = Dataset.range(1000).map(slow), [2 * x for x in range(1000)]
    with another(workers=3) as mesh:
        two = [iter(one) for one in consumers(numbers, mesh.target, 2, "saved")]
        got = [[int(next(each)) for _ in range(150)] for each in two]
        with ThreadPoolExecutor(2) as pool:
            states = list(pool.map(lambda each: each.state(), two))
        for each in two:
            each.close()
    with another(workers=1) as mesh:
        three = consumers(numbers, mesh.target, 3, "saved")
        with ThreadPoolExecutor(3) as pool:
            rest = list(pool.map(lambda one: [int(x) for x in one.iterator(states[0])], three))

    assert got == [wanted[k:300:2] for k in range(2)]
    assert rest == [wanted[300 + (k - 300) % 3 :: 3] for k in range(3)]


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


@pytest.mark.slow
def test_operators_behind_it_are_each_consumers_own(cluster, request):
    numbers = Dataset.range(1000).map(lambda x: x)
    two = consumers(numbers, cluster.target, 2, request.node.name)
    batches = [one.batch(100) for one in two]
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda one: [x.tolist() for x in one], batches))

    assert [len(each) for each in got] == [5, 5]
    assert [[x for batch in each for x in batch] for each in got] == by_turns(range(1000), 2)


@pytest.mark.slow
def test_one_frame_at_a_time_is_enough(cluster, request):
    numbers, job = Dataset.range(300).map(slow), request.node.name
    few = consumers(numbers, cluster.target, 2, job, max_outstanding_requests=1)

    assert all_of(few) == by_turns([2 * x for x in range(300)], 2)


@pytest.mark.slow
def test_an_error_comes_in_its_place_to_each_consumer(cluster, request):
    def fragile(x):
        if x == 500:
            raise ValueError("a bad sample")
        return slow(x)

    def read(one):
        got = []
        with pytest.raises(TransformError, match="a bad sample"):
            for x in one:
                got.append(int(x))  # noqa: PERF401  what came before the error counts
        return got

    two = consumers(Dataset.range(1000).map(fragile), cluster.target, 2, request.node.name)
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(read, two))

    assert [each[:250] for each in got] == by_turns([2 * x for x in range(500)], 2)


@pytest.mark.slow
def test_what_is_registered_is_read_so_by_its_id(cluster, request):
    register_dataset(cluster.target, Dataset.range(200).map(slow), dataset_id="in turns")
    two = [
        from_dataset_id(
            DYNAMIC,
            cluster.target,
            "in turns",
            job_name=request.node.name,
            ordered=True,
            consumer_index=k,
            num_consumers=2,
        )
        for k in range(2)
    ]

    assert all_of(two) == by_turns([2 * x for x in range(200)], 2)


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
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda one: [x.tolist() for x in one], two))

    assert len(got[0]) == len(got[1])
    with iter(consumers(batches, cluster.target, 2, f"{request.node.name} 2")[0]) as elements:
        assert elements.round == 0
