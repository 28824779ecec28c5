"""What `ignore_errors` leaves out, on workers and behind `distribute`, and the account of it."""

import json

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError
from penstock_cluster.cli.status import fetch


def picky(x):
    if x % 10 == 7:
        raise ValueError(f"not {x}")
    return x


def account(cluster, job):
    passes = json.loads(fetch(cluster.target))["iterations"]
    (found,) = [it["account"] for it in passes if it["job"] == job]
    return found


def test_what_workers_left_out_is_in_the_account_and_in_the_log(cluster, tmp_path, numbers):
    made = Dataset.range(3000).map(picky).ignore_errors(log=tmp_path)

    seen = numbers(made.distribute("distributed_epoch", cluster.target, "left out by workers"))

    assert sorted(seen) == [x for x in range(3000) if x % 10 != 7]
    lines = [line for file in tmp_path.iterdir() for line in file.read_text("ascii").splitlines()]
    messages = {json.loads(line)["message"] for line in lines}
    assert messages == {f"ValueError: not {x}" for x in range(7, 3000, 10)}
    told = account(cluster, "left out by workers")
    assert told["skipped"] == 300
    assert told["produced"] == told["acked"] == told["consumed"] == 2700


def test_what_is_left_out_behind_distribute_counts_as_taken(cluster, numbers):
    far = Dataset.range(3000).distribute("distributed_epoch", cluster.target, "left out here")

    seen = numbers(far.map(picky).ignore_errors().batch(1).unbatch())

    assert sorted(seen) == [x for x in range(3000) if x % 10 != 7]
    told = account(cluster, "left out here")
    assert told["skipped"] == 0
    assert told["produced"] == told["acked"] == 3000


def test_a_failed_job_is_no_element_to_leave_out(cluster):
    far = Dataset.range(30).map(picky).distribute("parallel_epochs", cluster.target)

    with pytest.raises(TransformError, match="not 7"):
        list(far.ignore_errors())
