"""A mesh that reads from a mesh: `distribute` inside a pipeline that is distributed itself."""

from collections import Counter

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.protocol.types import ShardingPolicy
from penstock_dispatcher import DispatcherConfig

OFF, DYNAMIC = "parallel_epochs", "distributed_epoch"


def inner(cluster, name=None, mode=DYNAMIC):
    return Dataset.range(300).map(lambda x: 3 * x).distribute(mode, cluster.target, name)


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level("ERROR")  # that such a pipeline cannot be made again is said elsewhere


def test_workers_that_share_an_inner_job_make_each_element_once(cluster):
    outer = inner(cluster, "nested shared").map(lambda x: x + 1).distribute(OFF, cluster.target)

    assert Counter(map(int, outer)) == Counter(3 * x + 1 for x in range(300))


def test_each_worker_reads_an_inner_job_without_a_name_whole(cluster):
    outer = inner(cluster).distribute(OFF, cluster.target)

    copies = Counter(map(int, outer))

    assert copies.keys() == {3 * x for x in range(300)}
    assert len(set(copies.values())) == 1


@pytest.mark.slow
def test_inner_jobs_may_be_read_in_an_interleave(cluster):
    target = cluster.target

    def of(x):
        return Dataset.range(10).map(lambda y: 10 * int(x) + y).distribute(OFF, target)

    outer = Dataset.range(3).interleave(of, cycle_length=2).distribute(OFF, target)

    copies = Counter(map(int, outer))

    assert copies.keys() == set(range(30))
    assert len(set(copies.values())) == 1


@pytest.mark.parametrize(
    "policy",
    [ShardingPolicy.DYNAMIC, ShardingPolicy.DATA, ShardingPolicy.FILE_OR_DATA],
    ids=lambda policy: policy.name,
)
def test_it_cannot_be_divided_once_more_and_the_error_says_what_can_be_done(policy):
    below = Dataset.range(9).distribute(DYNAMIC, "localhost:1", "job")

    with pytest.raises(DatasetError, match=r"give the outer.*OFF.*the inner one a job_name"):
        below.map(lambda x: x).distribute(policy, "localhost:1")


@pytest.mark.slow
def test_an_inner_mesh_of_its_own_serves_the_outer_one_though_a_worker_dies(another):
    # What readers in the dead worker had comes to others when their lease is over.
    with another(workers=3, dispatcher=DispatcherConfig(client_timeout=4.0)) as mesh:
        below = inner(mesh, "survives")
        outer = iter(below.distribute(OFF, mesh.target))
        taken = [int(next(outer)) for _ in range(20)]
        mesh.workers[0].kill()
        taken += map(int, outer)

    # What readers in the dead worker had is in doubt, as their elements cannot be made again.
    assert set(taken) <= {3 * x for x in range(300)}
    assert len(set(taken)) >= 20
