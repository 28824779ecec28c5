"""The whole path, from a dataset through real processes to a training loop."""

import time
from collections import Counter

import numpy as np
import pytest

from penstock import errors
from penstock.dataset.dataset import Dataset
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.reader.distribute import distribute
from tests.mesh.drivers import in_turn

MODES = ["parallel_epochs", "distributed_epoch"]


def alike(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            alike(a[key], b[key])
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            alike(x, y)
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert (a == b).all()
    else:
        assert a == b


@pytest.mark.parametrize("mode", MODES)
def test_with_one_worker_and_one_reader_order_and_result_equal_a_local_run(one_worker, mode):
    dataset = (
        Dataset.range(5000)
        .map(lambda x: x * 3)
        .filter(lambda x: x % 2 == 0)
        .shuffle(50, seed=7)
        .batch(8)
    )

    far = list(dataset.distribute(mode, one_worker.target))

    alike(tuple(far), tuple(dataset))


@pytest.mark.quick(3)
@pytest.mark.parametrize("compression", ["AUTO", "LZ4", "ZSTD", None])
def test_elements_have_the_same_types_and_values_over_the_mesh(cluster, mixed, compression):
    local = {int(e["scalar"]): e for e in mixed()}

    far = list(mixed().distribute("distributed_epoch", cluster.target, compression=compression))

    assert len(far) == len(local)
    for element in far:
        alike(element, local[int(element["scalar"])])


def test_parallel_epochs_give_one_copy_a_worker(cluster, numbers):
    far = Dataset.range(100).distribute("parallel_epochs", cluster.target)

    assert Counter(numbers(far)) == dict.fromkeys(range(100), 2)


def test_each_loop_over_a_distributed_dataset_is_an_epoch(cluster, numbers):
    far = Dataset.range(50).distribute("distributed_epoch", cluster.target, job_name="epochs")

    assert [sorted(numbers(far)) for _ in range(3)] == [list(range(50))] * 3


def test_repeat_after_distribute_reads_so_many_epochs(cluster, numbers):
    far = Dataset.range(20).apply(distribute("distributed_epoch", cluster.target)).repeat(5)

    assert Counter(numbers(far)) == dict.fromkeys(range(20), 5)


def test_a_global_shuffle_has_one_order_for_all_tasks_also_from_a_saved_state(cluster, numbers):
    shuffled = Dataset.range(5000).global_shuffle().repeat(2)
    far = shuffled.distribute("distributed_epoch", cluster.target)

    with far.iterator() as it:
        before = [int(next(it)) for _ in range(2000)]
        state = it.state()
    after = numbers(far.iterator(state))

    assert Counter(before + after) == dict.fromkeys(range(5000), 2)
    assert np.mean(np.diff(before) > 0) < 0.6


def test_repeat_before_distribute_hands_out_each_pass_whole(cluster, numbers):
    far = Dataset.range(300).repeat(3).distribute("distributed_epoch", cluster.target)

    assert Counter(numbers(far)) == dict.fromkeys(range(300), 3)


def test_repeat_of_a_pass_in_which_nothing_passes_the_filter_ends(cluster):
    far = (
        Dataset.range(10)
        .filter(lambda x: x > 100)
        .repeat()
        .distribute("distributed_epoch", cluster.target)
    )

    assert list(far) == []


@pytest.mark.slow
def test_an_endless_dataset_can_be_left_in_the_middle(cluster, nothing_left):
    far = Dataset.range(10).repeat().distribute("distributed_epoch", cluster.target)

    with iter(far) as it:
        seen = Counter(int(next(it)) for _ in range(1000))

    assert set(seen) == set(range(10))


@pytest.mark.slow
def test_tasks_divide_random_numbers(cluster, numbers):
    chance = Dataset.random(seed=7)
    local = numbers(chance.take(500))

    taken = chance.take(500).distribute("distributed_epoch", cluster.target)
    with chance.distribute("distributed_epoch", cluster.target).iterator() as endless:
        some = [int(next(endless)) for _ in range(300)]
    ordered = chance.take(100).distribute("distributed_epoch", cluster.target, ordered=True)

    assert sorted(numbers(taken)) == sorted(local)
    assert len(set(some)) == 300
    assert numbers(ordered) == local[:100]


def test_zip_under_dynamic_sharding_lines_up(cluster):
    left = Dataset.range(1000).map(lambda x: x * 2)
    right = Dataset.from_tensor_slices(np.arange(900)).batch(1).map(lambda b: b[0])

    far = list(
        Dataset.zip((left.batch(4), right.batch(4))).distribute("distributed_epoch", cluster.target)
    )

    assert all((a[: len(b)] == 2 * b).all() for a, b in far)
    assert sorted(int(x) for _, b in far for x in b) == list(range(900))


@pytest.mark.parametrize("elements", [2, 7, 1000])
@pytest.mark.parametrize("mode", MODES)
def test_two_iterators_of_one_job_read_alternately_in_one_thread_both_finish(
    one_worker, elements, mode
):
    def reader():
        far = Dataset.range(elements).distribute(
            mode, one_worker.target, job_name=f"two {mode} {elements}"
        )
        return iter(far)

    one, two = in_turn([reader(), reader()])

    assert sorted(map(int, one + two)) == list(range(elements))


def test_anonymous_jobs_are_private(cluster, numbers):
    far = Dataset.range(10).distribute("distributed_epoch", cluster.target)

    one, two = iter(far), iter(far)

    assert sorted(numbers(one)) == sorted(numbers(two)) == list(range(10))


def test_a_pass_over_ten_elements_does_not_wait_for_a_heartbeat(cluster):
    far = Dataset.range(10).distribute("distributed_epoch", cluster.target)
    list(far)
    times = []

    for _ in range(5):
        began = time.perf_counter()
        assert len(list(far)) == 10
        times.append(time.perf_counter() - began)

    assert sorted(times)[2] < 0.5


def test_arrays_are_read_only_unless_writable_is_asked_for(cluster):
    dataset = Dataset.range(4).map(lambda i: np.full(3, i))

    plain = list(dataset.distribute("distributed_epoch", cluster.target))
    fresh = list(dataset.distribute("distributed_epoch", cluster.target, writable=True))

    assert not any(array.flags.writeable for array in plain)
    assert all(array.flags.writeable for array in fresh)


def test_the_cardinality_of_a_distributed_dataset_is_what_is_known(cluster):
    target = cluster.target

    assert Dataset.range(0).distribute("distributed_epoch", target).cardinality() == 0
    alone = Dataset.range(20).batch(3).distribute("distributed_epoch", target)
    assert len(alone) == len(list(alone)) == 7
    shared = Dataset.range(9).distribute("distributed_epoch", target, job_name="shared")
    assert shared.cardinality() == UNKNOWN
    assert Dataset.range(9).repeat().distribute("parallel_epochs", target).cardinality() == INFINITE


async def test_a_distributed_dataset_can_be_read_with_async_for(cluster):
    far = Dataset.range(100).distribute("distributed_epoch", cluster.target)

    got = [int(x) async for x in iter(far)]

    assert sorted(got) == list(range(100))


def test_a_job_of_this_name_with_other_parameters_is_refused(cluster):
    target = cluster.target
    first = iter(Dataset.range(10).distribute("distributed_epoch", target, job_name="taken"))
    next(first)

    with pytest.raises(errors.JobMismatch, match="taken"):
        next(
            iter(Dataset.range(10).distribute("parallel_epochs", cluster.target, job_name="taken"))
        )
    with pytest.raises(ValueError, match="taken.*range: stop is 10 in one and 9 in the other"):
        next(
            iter(Dataset.range(9).distribute("distributed_epoch", cluster.target, job_name="taken"))
        )
    first.close()


def test_two_ranks_with_jobs_of_their_own_read_each_element_once_by_shard(cluster, numbers):
    whole = Dataset.range(5000).map(lambda x: x)
    shards = [whole.shard(2, rank) for rank in range(2)]

    seen = [numbers(shard.distribute("distributed_epoch", cluster.target)) for shard in shards]

    assert [sorted(part) for part in seen] == [numbers(shard) for shard in shards]


def test_a_job_that_two_ranks_shard_in_ways_of_their_own_is_refused_by_name(cluster, numbers):
    def shard(rank):
        ds = Dataset.range(100).shard(2, rank)
        return ds.distribute("distributed_epoch", cluster.target, job_name="sharded")

    with iter(shard(0)) as it:
        next(it)
        with pytest.raises(errors.JobMismatch, match=r"'sharded'.*\(no rank in shard\)"):
            next(iter(shard(1)))
        numbers(it)


def test_whole_batches_come_from_several_tasks_and_one_is_short(cluster):
    far = Dataset.range(1000).batch(32).distribute("distributed_epoch", cluster.target)

    assert sorted(map(len, far)) == [1000 % 32, *[32] * (1000 // 32)]


def test_a_cache_behind_distribute_keeps_what_workers_made_for_later_passes(cluster, tmp_path):
    file = tmp_path / "elements"

    def far():
        made = Dataset.range(6).map(lambda x: x + 2 * sum(1 for _ in tmp_path.iterdir()))
        return made.distribute("distributed_epoch", cluster.target).cache(file)

    first = far()
    made = sorted(map(int, first))

    assert file.exists()
    assert sorted(map(int, first)) == sorted(map(int, far())) == made
