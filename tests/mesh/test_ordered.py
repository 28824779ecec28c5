"""One order, whatever the mesh looks like, and whatever happens to it."""

import itertools
import os
import signal
import time
from collections import Counter
from contextlib import nullcontext

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, StateError, TransformError
from penstock.service import from_dataset_id, register_dataset
from tests.mesh.drivers import each, in_turn

DYNAMIC = "distributed_epoch"


def slow(x):
    time.sleep(0.001)
    return 2 * x


def varied(x, *, rng):
    return int(x) * 1000 + int(rng.integers(1000))


def shuffled(x):
    return Dataset.range(int(x) % 5).shuffle(10).map(lambda y: 10 * int(x) + y)


@pytest.fixture
def lines(tmp_path):
    for i in range(7):
        text = "".join(f"{i}:{j}\n" for j in range(3 * i))
        (tmp_path / f"{i}.txt").write_text(text)
    return tmp_path


PIPELINES = {
    "numbers": lambda _: Dataset.range(300).map(slow).filter(lambda x: bool(x % 3)),
    "chance": lambda _: Dataset.range(40).map(varied),
    "inner": lambda _: Dataset.range(30).flat_map(shuffled),
    "batches": lambda _: Dataset.range(500).map(lambda x: x).batch(7).map(lambda b: int(b.sum())),
    "files": lambda folder: Dataset.list_files(str(folder / "*.txt"), shuffle=False).interleave(
        Dataset.text_lines, cycle_length=3
    ),
    "shuffled": lambda _: Dataset.range(1000).global_shuffle(seed=5).map(lambda x: x + 1),
    "empty": lambda _: Dataset.range(0),
}


def read(dataset, target, **more):
    return dataset.distribute(DYNAMIC, target, ordered=True, **more)


def readers(dataset, target, consumers, job, **more):
    """Return what each of several *consumers* reads, or the one reader of a job without them."""
    if consumers is None:
        return [read(dataset, target, job_name=job, **more)]
    how = {"job_name": job, "num_consumers": consumers, **more}
    return [read(dataset, target, consumer_index=k, **how) for k in range(consumers)]


def turns(values, consumers):
    """Return what each of several consumers gets of *values*."""
    values = list(values)
    return [values] if consumers is None else [values[k::consumers] for k in range(consumers)]


ALONE_OR_NOT = pytest.mark.parametrize("consumers", [None, 2])


def plain(elements):
    return [x if isinstance(x, str) else int(x) for x in elements]


@pytest.mark.slow
def test_an_order_is_the_same_on_one_worker_on_two_and_on_five(clusters, lines):
    """The job's seed is new each time: so it is fixed by a state that was saved at the start."""
    found = {name: [] for name in PIPELINES}
    starts = {}
    for workers in (1, 2, 5):
        cluster = clusters.shared(workers=workers) if workers < 3 else None
        with clusters.own(workers=workers) if cluster is None else nullcontext(cluster) as mesh:
            for name, pipeline in PIPELINES.items():
                dataset = read(pipeline(lines), mesh.target)
                if name not in starts:
                    with iter(dataset) as fresh:
                        starts[name] = fresh.state()
                found[name].append(plain(dataset.iterator(starts[name])))

    for name, (one, two, five) in found.items():
        assert one == two == five, name
    assert found["numbers"][0] == [2 * x for x in range(300) if 2 * x % 3]
    assert found["files"][0] == [f"{i}:{j}" for i in range(7) for j in range(3 * i)]
    assert len(set(found["chance"][0])) > 30
    assert sorted(found["shuffled"][0]) == list(range(1, 1001)) != found["shuffled"][0]
    assert found["empty"][0] == []


@pytest.mark.slow
@ALONE_OR_NOT
def test_four_workers_a_drain_and_a_dispatcher_later_the_order_is_the_same(another, consumers):
    wanted = turns([2 * x for x in range(3000)], consumers)
    with another(workers=4) as mesh:
        done = itertools.count(1)

        def follow(dataset):
            got = []
            for x in dataset:
                got.append(int(x))
                match next(done):
                    case 400 | 800 as at:
                        mesh.workers[at // 400 - 1].kill()
                    case 1200:
                        mesh.dispatcher.kill()
                        mesh.dispatcher.restart()
                    case 1600:
                        mesh.add_worker()
                        os.kill(mesh.workers[2].pid, signal.SIGTERM)
            return got

        numbers = Dataset.range(3000).map(slow)
        assert each(follow, readers(numbers, mesh.target, consumers, "hostile")) == wanted


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(None, None), (2, 3)])
def test_what_was_saved_goes_on_in_the_same_order_with_other_workers_and_consumers(
    another, before, after
):
    numbers, wanted = Dataset.range(1000).map(slow), [2 * x for x in range(1000)]

    def begin(dataset):
        with iter(dataset) as elements:
            return [int(next(elements)) for _ in range(150)], elements.state()

    with another(workers=3) as mesh:
        begun = each(begin, readers(numbers, mesh.target, before, "saved"))
        state = begun[0][1]
    with another(workers=1) as mesh:
        again = readers(numbers, mesh.target, after, "saved")
        rest = each(lambda one: plain(one.iterator(state)), again)

    at = 150 * len(begun)
    assert [got for got, _ in begun] == turns(wanted[:at], before)
    mine = [range(k, 1000, len(rest)) for k in range(len(rest))]
    assert rest == [[2 * x for x in numbers if x >= at] for numbers in mine]


@pytest.fixture
def saved(cluster, request):
    """What was read of a job, its dataset, its state, and the tasks in that."""
    dataset = read(Dataset.range(600).map(slow), cluster.target, job_name=request.node.name)
    with iter(dataset) as elements:
        got = [int(next(elements)) for _ in range(50)]
        state = elements.state()
    return got, dataset, state, state["jobs"][""][0]["state"]["tasks"]


@pytest.mark.slow
def test_a_state_may_list_its_tasks_in_any_order(saved):
    got, dataset, state, tasks = saved
    assert len(tasks) > 1
    tasks.reverse()

    got += [int(x) for x in dataset.iterator(state)]

    assert got == [2 * x for x in range(600)]


def test_a_state_whose_task_lacks_the_end_of_its_split_is_refused(saved):
    _, dataset, state, tasks = saved
    tasks[0]["ended"] = [0]
    tasks[0]["logs"][0]["splits"].pop()

    with pytest.raises(StateError, match=r"each has its split, and the end.*\$\.tasks"):
        list(dataset.iterator(state))


@pytest.mark.slow
def test_each_of_several_readers_gets_its_elements_in_order(cluster):
    job = read(Dataset.range(2000).map(slow), cluster.target, job_name="two in order")
    one, two = (
        iter(job),
        iter(read(Dataset.range(2000).map(slow), cluster.target, job_name="two in order")),
    )
    got = [plain(taken) for taken in in_turn([one, two])]

    assert Counter(got[0] + got[1]) == Counter(2 * x for x in range(2000))
    late = sum(b < a for taken in got for a, b in zip(taken, taken[1:]))
    assert late < 200  # what a reader requeues because the other one starves comes late
    assert all(len(taken) > 100 for taken in got)


def test_bad_samples_are_left_out_where_they_stand(cluster):
    def fragile(x):
        if x % 100 == 17:
            raise ValueError("a bad sample")
        return int(x)

    job = read(Dataset.range(1000).map(fragile), cluster.target, on_error="skip")

    assert plain(job) == [x for x in range(1000) if x % 100 != 17]


def test_what_keeps_something_across_splits_is_refused_before_anybody_is_called():
    with pytest.raises(DatasetError, match=r"ordered=True: scan.* put it behind distribute"):
        read(Dataset.range(9).scan(0, lambda s, x: (s + x, s)), "localhost:1")


@pytest.mark.slow
@ALONE_OR_NOT
def test_operators_behind_it_keep_the_order_and_do_not_stall(cluster, request, consumers):
    def drawn(x, *, rng):
        return int(x) + 0 * int(rng.integers(3))

    job = readers(Dataset.range(1000).map(drawn), cluster.target, consumers, request.node.name)

    got = each(lambda one: [batch.tolist() for batch in one.batch(100)], job)

    assert {len(batch) for batches in got for batch in batches} == {100}
    assert [sum(batches, []) for batches in got] == turns(range(1000), consumers)


@pytest.mark.slow
@ALONE_OR_NOT
def test_one_frame_at_a_time_is_enough(cluster, request, consumers):
    how = {"max_outstanding_requests": 1}
    few = readers(Dataset.range(600).map(slow), cluster.target, consumers, request.node.name, **how)

    assert each(plain, few) == turns([2 * x for x in range(600)], consumers)


@pytest.mark.slow
@ALONE_OR_NOT
def test_an_error_comes_in_its_place(cluster, request, consumers):
    def fragile(x):
        if x == 700:
            raise ValueError("a bad sample")
        return slow(x)

    def follow(dataset):
        got = []
        with pytest.raises(TransformError, match="a bad sample"):
            for x in dataset:
                got.append(int(x))  # noqa: PERF401  what came before the error counts
        return got

    job = readers(Dataset.range(1000).map(fragile), cluster.target, consumers, request.node.name)
    got = each(follow, job)

    wanted = turns([2 * x for x in range(700)], consumers)
    assert [mine[: len(due)] for mine, due in zip(got, wanted)] == wanted
    assert all(mine == sorted(mine) for mine in got)


@pytest.mark.slow
def test_what_is_registered_can_be_read_in_order_by_its_id(cluster):
    register_dataset(cluster.target, Dataset.range(400).map(slow), dataset_id="in order")
    register_dataset(cluster.target, Dataset.range(400).shuffle(9), dataset_id="in no order")

    for consumers in (None, 2):
        how = [{}] if consumers is None else [{"consumer_index": k} for k in range(consumers)]
        known = [
            from_dataset_id(
                DYNAMIC, cluster.target, "in order", job_name=f"{consumers}", ordered=True,
                num_consumers=consumers, **one,
            )
            for one in how
        ]  # fmt: skip
        assert each(plain, known) == turns([2 * x for x in range(400)], consumers)
    with pytest.raises(DatasetError, match=r"shuffle keeps something .* use global_shuffle"):
        from_dataset_id(DYNAMIC, cluster.target, "in no order", ordered=True)


@pytest.mark.slow
def test_a_slow_split_is_waited_for_and_workers_do_not_run_far_ahead(cluster):
    def first_is_slow(x):
        if x == 0:
            time.sleep(1.0)
        return int(x)

    assert plain(read(Dataset.range(2000).map(first_is_slow), cluster.target)) == list(range(2000))
