"""`distribute(..., on_error="skip")`: bad samples are left out for all readers, counted once."""

import json
import threading
import time
from contextlib import suppress

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import JobMismatch, TransformError
from penstock.service import CrossTrainerCache
from penstock_cluster.cli.status import fetch
from penstock_dispatcher.config import DispatcherConfig
from tests.mesh.drivers import side_by_side


def picky(x):
    if x % 10 == 7:
        raise ValueError(f"not {x}")
    return x


def never(x):
    raise ValueError(f"never {x}")


GOOD = [x for x in range(3000) if x % 10 != 7]


def iteration(cluster, job):
    passes = json.loads(fetch(cluster.target))["iterations"]
    (found,) = [it for it in passes if it["job"] == job]
    return found


def reading(cluster, mode, job, n=3000, **arguments):
    made = Dataset.range(n).map(picky)
    return made.distribute(mode, cluster.target, job, on_error="skip", **arguments)


def test_as_many_bad_samples_as_are_allowed_are_left_out_and_counted_once(cluster, numbers):
    seen = numbers(reading(cluster, "distributed_epoch", "left out", max_errors=300))

    assert sorted(seen) == GOOD
    told = iteration(cluster, "left out")
    assert told["account"]["errors"] == 300
    assert told["account"]["skipped"] == 0
    assert told["account"]["produced"] == told["account"]["acked"] == 2700
    assert told["faults"] == []
    letters = told["dead_letters"]
    assert 0 < len(letters) <= 4 * len(cluster.workers)
    assert len({letter["id"] for letter in letters}) == len(letters)
    for letter in letters:
        assert letter["source"] == "map(picky)"
        assert letter["message"].startswith("ValueError: not ")
        assert "raise ValueError" in letter["traceback"]
        assert letter["input"]


def test_each_copy_of_the_dataset_leaves_out_its_own(cluster, numbers):
    seen = numbers(reading(cluster, "parallel_epochs", "copies", 300))

    copies = len(cluster.workers)
    assert sorted(seen) == sorted([x for x in GOOD if x < 300] * copies)
    assert iteration(cluster, "copies")["account"]["errors"] == 30 * copies


def test_trainers_of_a_cache_share_what_is_left_out(cluster, numbers):
    def trainer(name):
        cache = CrossTrainerCache(name)
        return reading(
            cluster, "distributed_epoch", "cached", cross_trainer_cache=cache, when_full="wait"
        )

    one, two = iter(trainer("one")), iter(trainer("two"))

    assert sorted(map(int, one)) == sorted(map(int, two)) == GOOD
    assert iteration(cluster, "cached")["account"]["errors"] == 300


def test_too_many_end_the_pass_for_all_its_readers(cluster):
    all_came = threading.Barrier(2)

    def read():
        with iter(reading(cluster, "distributed_epoch", "strict", 10**9, max_errors=5)) as elements:
            all_came.wait()
            with pytest.raises(TransformError) as caught:
                list(elements)
        return caught.value

    for error in side_by_side(read, read):
        assert error.operator == "map(picky)"
        assert "max_errors is 5" in str(error)
        assert "ValueError: not " in str(error)
        assert "larger max_errors" in str(error)
        assert "raise ValueError" in error.remote_traceback
        assert error.worker in {worker.address for worker in cluster.workers}


def test_too_many_end_the_pass_for_all_trainers_of_a_cache(cluster):
    def trainer(name):
        return reading(
            cluster, "distributed_epoch", "strict cache", max_errors=5,
            cross_trainer_cache=CrossTrainerCache(name), when_full="wait",
        )  # fmt: skip

    one, two = iter(trainer("one")), iter(trainer("two"))
    for elements in (one, two):
        with pytest.raises(TransformError, match="max_errors is 5"):
            list(elements)


@pytest.mark.quick(1)
@pytest.mark.parametrize("before", ["skip", "raise"])
def test_a_saved_job_goes_on_and_so_does_its_count(cluster, before):
    made = Dataset.range(3000).map(picky)
    saved = made.distribute("distributed_epoch", cluster.target, f"saved {before}", on_error=before)
    with iter(saved) as elements:
        seen = []
        with suppress(TransformError):
            seen += (int(next(elements)) for _ in range(1000))
        state = elements.state()
    skipping = reading(cluster, "distributed_epoch", f"went on from {before}", max_errors=300)

    with skipping.iterator(state) as elements:
        seen += map(int, elements)

    assert sorted(seen) == GOOD
    assert iteration(cluster, f"went on from {before}")["account"]["errors"] == 300


@pytest.mark.slow
def test_where_nothing_can_be_made_the_pass_ends(cluster):
    made = Dataset.range(10**12).map(never)
    far = made.distribute("parallel_epochs", cluster.target, on_error="skip", max_errors=1000)

    with pytest.raises(TransformError, match="max_errors is 1000"):
        list(far)


@pytest.mark.slow
@pytest.mark.parametrize("most", [80, 79])
def test_a_killed_worker_has_nothing_counted_twice(clusters, most):
    def slow(x):
        time.sleep(0.001)
        return picky(x)

    dispatcher = DispatcherConfig(worker_timeout=2.0)
    with clusters.own(workers=2, dispatcher=dispatcher) as cluster:
        far = Dataset.range(800).map(slow)
        far = iter(
            far.distribute(
                "distributed_epoch", cluster.target, "killed", on_error="skip", max_errors=most
            )
        )
        seen = [int(next(far)) for _ in range(50)]
        cluster.workers[0].kill()
        if most == 80:
            assert sorted([*seen, *map(int, far)]) == [x for x in range(800) if x % 10 != 7]
        else:
            with pytest.raises(TransformError, match="the first of 80 elements"):
                list(far)

        assert iteration(cluster, "killed")["account"]["errors"] == 80


def test_readers_of_a_job_agree_on_it(cluster):
    with iter(reading(cluster, "distributed_epoch", "agreed", max_errors=3)):
        with pytest.raises(JobMismatch, match="max_errors is 3, not 4"):
            iter(reading(cluster, "distributed_epoch", "agreed", max_errors=4))
        other = Dataset.range(3000).map(picky)
        with pytest.raises(JobMismatch, match=r"on_error is 'skip', not 'raise'.* max_errors is 3"):
            iter(other.distribute("distributed_epoch", cluster.target, "agreed"))
