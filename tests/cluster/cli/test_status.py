"""What `penstock status` and `penstock jobs` show, at the width of a screen."""

import json

from penstock.dataset.dataset import Dataset
from penstock_cluster.cli import status


def test_jobs_as_json_are_a_list(cluster):
    def increment(i):
        return i + 1

    dataset = Dataset.range(10).map(increment)
    elements = dataset.distribute("distributed_epoch", cluster.target, job_name="as json")
    assert len(list(elements)) == 10

    jobs = json.loads(status.jobs_json(cluster.target))["jobs"]

    (mine,) = [job for job in jobs if job["job"] == "as json"]
    assert mine["pipeline"] == "range → map(increment)"
    assert (mine["state"], mine["finished"], mine["readers"]) == ("finished", True, 0)
    assert (mine["acked"], mine["anonymous"]) == (10, False)


def test_status_as_json_has_the_names_that_scripts_read(cluster):
    dataset = Dataset.range(10)
    assert len(list(dataset.distribute("distributed_epoch", cluster.target, job_name="read"))) == 10

    # Whole containers are asked for the same, in tests/compose, where there is an engine for them.
    iterations = json.loads(status.fetch(cluster.target))["iterations"]
    (mine,) = [iteration for iteration in iterations if iteration["job"] == "read"]
    assert (mine["finished"], mine["faults"]) == (True, [])
    assert (mine["account"]["acked"], mine["account"]["redelivered"]) == (10, 0)


def test_status_says_what_every_process_speaks(cluster):
    dataset = Dataset.range(1000).distribute("distributed_epoch", cluster.target)
    with dataset.iterator() as elements:
        next(elements)
        seen = status.look(cluster.target).stats

    mine = seen.versions
    assert mine is not None
    assert {worker.versions for worker in seen.workers} == {mine}
    processes = [r.process for it in seen.iterations if not it.finished for r in it.readers]
    assert {(p.penstock, p.python) for p in processes} == {(mine.penstock, mine.python)}
