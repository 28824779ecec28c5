"""Fixed parts for a fixed list of workers, with real processes."""

import json
import time
from contextlib import contextmanager

import pytest

from penstock import errors
from penstock.dataset.dataset import Dataset
from penstock.service import (
    SHARD_HINT,
    CrossTrainerCache,
    ShardingPolicy,
    save_job,
    set_weights,
)
from penstock_cluster.cli.status import fetch
from penstock_dispatcher.config import DispatcherConfig
from tests.mesh.drivers import read_all, side_by_side

HERE = "127.0.0.1"


@pytest.fixture
def listed(clusters):
    """Two workers, each with a place in the list: the one that comes first has the first."""

    @contextmanager
    def start(entries=(HERE, f"{HERE}:*"), **settings):
        config = DispatcherConfig(worker_addresses=entries, **settings)
        with clusters.own(2, dispatcher=config) as cluster:
            yield cluster

    return start


def slow(x):
    time.sleep(0.002)
    return x


def ints(elements):
    return sorted(int(x) for x in elements)


@pytest.mark.slow
def test_each_policy_gives_every_element_once(listed, tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text("\n".join(f"{i}:{j}" for j in range(5)))
    lines = sorted(f"{i}:{j}" for i in range(4) for j in range(5))
    read = Dataset.list_files(str(tmp_path / "*.txt")).interleave(Dataset.text_lines)

    with listed() as cluster:

        def got(dataset, policy, **more):
            return sorted(map(str, dataset.distribute(policy, cluster.target, **more)))

        assert got(read, ShardingPolicy.FILE) == lines
        assert got(read.shuffle(9), ShardingPolicy.DATA) == lines
        assert got(read, ShardingPolicy.FILE_OR_DATA) == lines
        assert got(read.shard(SHARD_HINT, 0).map(str), ShardingPolicy.HINT) == lines
        one = Dataset.text_lines(tmp_path / "0.txt")
        assert got(one, ShardingPolicy.FILE_OR_DATA) == lines[:5]
        with pytest.raises(errors.DatasetError, match="text_lines gives 1 file, .* 2 workers"):
            got(one, ShardingPolicy.FILE)
        twice = read.distribute(ShardingPolicy.FILE, cluster.target).repeat(2)
        assert sorted(map(str, twice)) == sorted(lines * 2)


@pytest.mark.slow
def test_a_mixture_is_divided_by_its_elements_and_keeps_its_weights(listed):
    sources = {"web": Dataset.range(300).map(slow), "code": Dataset.range(1000, 1100)}
    dataset = Dataset.mixture(sources, {"web": 3, "code": 1}, seed=1, stop="drop")

    with listed() as cluster:
        for policy in (ShardingPolicy.DATA, ShardingPolicy.FILE_OR_DATA):
            assert ints(dataset.distribute(policy, cluster.target)) == ints(dataset)
        hinted = dataset.shard(SHARD_HINT, 0).map(slow)
        assert ints(hinted.distribute(ShardingPolicy.HINT, cluster.target)) == ints(dataset)
        with pytest.raises(errors.DatasetError, match="range reads no files"):
            dataset.distribute(ShardingPolicy.FILE, cluster.target)

        job = dataset.distribute(ShardingPolicy.DATA, cluster.target, job_name="fixed")
        with iter(job) as elements:
            next(elements)
            with pytest.raises(errors.DatasetError, match=r"use ShardingPolicy\.DYNAMIC"):
                set_weights(cluster.target, "fixed", {"web": 1.0})


def test_readers_share_the_parts_and_fail_together(listed, tmp_path):
    (tmp_path / "one.txt").write_text("a\nb")

    with listed() as cluster:
        far = Dataset.range(400).distribute(ShardingPolicy.DATA, cluster.target, job_name="shared")
        again = Dataset.range(400).distribute(
            ShardingPolicy.DATA, cluster.target, job_name="shared"
        )
        assert sorted(sum(read_all([far, again]), [])) == list(range(400))

        few = Dataset.text_lines(tmp_path / "one.txt")

        def failure():
            far = few.distribute(ShardingPolicy.FILE, cluster.target, job_name="few")
            with pytest.raises(errors.DatasetError) as caught:
                list(far)
            return str(caught.value)

        for said in side_by_side(failure, failure):
            assert "gives 1 file" in said


def test_consumers_and_trainers_read_fixed_parts_too(listed):
    with listed() as cluster:

        def consumer(index):
            return Dataset.range(40).distribute(
                ShardingPolicy.DATA,
                cluster.target,
                job_name="rounds",
                consumer_index=index,
                num_consumers=2,
            )

        def trainer(name):
            far = Dataset.range(40).distribute(
                ShardingPolicy.DATA,
                cluster.target,
                job_name="cached",
                cross_trainer_cache=CrossTrainerCache(name),
            )
            return ints(far)

        assert sorted(sum(read_all([consumer(0), consumer(1)]), [])) == list(range(40))
        assert trainer("a") == trainer("b") == list(range(40))


@pytest.mark.slow
def test_a_worker_that_comes_back_goes_on_exactly_where_it_was(listed):
    data = Dataset.range(2000).map(slow)

    with listed() as cluster:
        far = iter(data.distribute(ShardingPolicy.DATA, cluster.target, job_name="j"))
        got = [next(far) for _ in range(400)]
        cluster.workers[1].kill()
        got += [next(far) for _ in range(100)]
        cluster.workers[1].restart()
        got += far

        assert ints(got) == list(range(2000))
        (one,) = json.loads(fetch(cluster.target))["iterations"]
        assert (one["account"]["redelivered"], one["account"]["in_doubt"]) == (0, 0)


@pytest.mark.slow
def test_the_dispatcher_may_die_too(listed):
    data = Dataset.range(1500).map(slow)

    with listed() as cluster:
        far = iter(data.distribute(ShardingPolicy.DATA, cluster.target, job_name="j"))
        got = [next(far) for _ in range(300)]
        cluster.dispatcher.kill()
        cluster.workers[0].kill()
        cluster.dispatcher.restart()
        cluster.workers[0].restart()
        got += far

        assert ints(got) == list(range(1500))


@pytest.mark.slow
def test_who_waits_in_vain_is_told_for_which_worker(listed):
    with listed() as cluster:
        gone = cluster.workers[1]
        gone.kill()
        far = Dataset.range(9).distribute(ShardingPolicy.DATA, cluster.target, timeout=3)

        with pytest.raises(errors.WaitedTooLong) as caught:
            list(far)

    said = str(caught.value)
    assert f"of worker_addresses ({gone.address} was there before), which has part " in said
    assert " of 2 and is absent for " in said
    assert "start it again at that address, or set reassign_static_tasks" in said


@pytest.mark.slow
def test_another_worker_takes_over_if_settings_say_so(listed):
    with listed(worker_timeout=2.0, reassign_static_tasks=True) as cluster:
        far = iter(Dataset.range(1000).map(slow).distribute(ShardingPolicy.DATA, cluster.target))
        got = [next(far) for _ in range(100)]
        cluster.workers[1].kill()
        got += far

        assert ints(got) == list(range(1000))


def test_one_worker_more_than_the_list_has_is_refused(listed, capfd):
    with listed() as cluster:
        with pytest.raises(errors.ConfigError, match="worker 2 ended at start"):
            cluster.add_worker()

        assert (
            "is one too many: worker_addresses (127.0.0.1, 127.0.0.1:*)" in capfd.readouterr().err
        )


@pytest.mark.slow
def test_a_static_job_is_saved_and_goes_on(listed):
    with listed() as cluster:
        data = Dataset.range(600).map(slow)
        with iter(data.distribute(ShardingPolicy.DATA, cluster.target, job_name="j")) as far:
            got = [next(far) for _ in range(200)]
            state = save_job(far, "here")
        rest = data.distribute(ShardingPolicy.DATA, cluster.target, job_name="j").iterator(state)

        assert ints([*got, *rest]) == list(range(600))


def test_without_a_list_static_sharding_is_refused_with_what_to_set(cluster):
    far = Dataset.range(4).distribute(ShardingPolicy.DATA, cluster.target)

    with pytest.raises(errors.DatasetError, match="no list of workers: start it with worker_add"):
        list(far)
