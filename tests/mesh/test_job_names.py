"""A job name that was used before: what the loop that comes late is told."""

import logging

import pytest

from penstock import errors
from penstock.dataset.dataset import Dataset


def build(cluster, name, **more):
    return Dataset.range(40).distribute("distributed_epoch", cluster.target, job_name=name, **more)


def test_joining_a_pass_that_is_over_is_a_warning_that_says_who_read_it(cluster, caplog):
    list(build(cluster, "used up"))

    with caplog.at_level(logging.WARNING, "penstock.reader"):
        assert list(build(cluster, "used up")) == []

    (line,) = [record.getMessage() for record in caplog.records]
    assert "job 'used up', repetition 1 is over: 40 elements went to reader" in line
    assert "pid" in line
    assert "give a job_name that was never used" in line


def test_joining_what_readers_left_behind_is_an_error_where_that_is_wanted(cluster, caplog):
    with build(cluster, "left over").iterator() as left:
        seen = [int(next(left)) for _ in range(7)]

    words = r"7 elements went to reader .*left\), and it has no reader now"
    with pytest.raises(errors.JobUsed, match=words):
        list(build(cluster, "left over", on_finished="error"))
    with caplog.at_level(logging.WARNING, "penstock.reader"):
        seen += map(int, build(cluster, "left over", on_finished="ignore"))

    assert sorted(seen) == list(range(40))
    assert not caplog.records


def test_a_new_name_the_next_pass_and_readers_side_by_side_are_no_used_names(cluster, caplog):
    with caplog.at_level(logging.WARNING, "penstock.reader"):
        dataset = build(cluster, "fresh", on_finished="error")
        list(dataset)
        list(dataset)
        with build(cluster, "side by side", on_finished="error").iterator() as one:
            next(one)
            build(cluster, "side by side", on_finished="error").iterator().close()

    assert not caplog.records
