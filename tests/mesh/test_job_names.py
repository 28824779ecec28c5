"""A job name that was used before: what the loop that comes late is told."""

import logging

import pytest

from penstock import errors
from penstock.dataset.dataset import Dataset


def build(cluster, name, **more):
    return Dataset.range(40).distribute("distributed_epoch", cluster.target, job_name=name, **more)


def test_joining_a_pass_that_is_over_is_an_error_that_says_who_read_it(cluster):
    list(build(cluster, "used up"))

    with pytest.raises(errors.JobUsed) as raised:
        list(build(cluster, "used up"))

    said = str(raised.value)
    assert "job 'used up', repetition 1 is over: 40 elements went to reader" in said
    assert "pid" in said
    assert "give a job_name that was never used" in said


def test_it_is_a_warning_where_that_is_wanted(cluster, caplog):
    list(build(cluster, "used up, warned"))

    with caplog.at_level(logging.WARNING, "penstock.reader"):
        assert list(build(cluster, "used up, warned", on_finished="warn")) == []

    (line,) = [record.getMessage() for record in caplog.records]
    assert "repetition 1 is over: 40 elements went to reader" in line


def test_one_of_several_processes_of_a_launcher_that_comes_too_late_gets_the_end(
    cluster, caplog, monkeypatch
):
    list(build(cluster, "ranks"))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")

    with caplog.at_level(logging.WARNING, "penstock.reader"):
        assert list(build(cluster, "ranks")) == []

    assert "repetition 1 is over: 40 elements went to reader" in caplog.text


def test_joining_what_readers_left_behind_is_an_error_too(cluster, caplog):
    with build(cluster, "left over").iterator() as left:
        seen = [int(next(left)) for _ in range(7)]

    words = r"7 elements went to reader .*left\), and it has no reader now"
    with pytest.raises(errors.JobUsed, match=words):
        list(build(cluster, "left over"))
    with caplog.at_level(logging.WARNING, "penstock.reader"):
        seen += map(int, build(cluster, "left over", on_finished="ignore"))

    assert sorted(seen) == list(range(40))
    assert not caplog.records


def test_one_that_comes_late_gets_the_end_if_others_read_the_next_pass(cluster, caplog):
    early, late = build(cluster, "late"), build(cluster, "late")
    list(early)
    with caplog.at_level(logging.WARNING, "penstock.reader"), early.iterator() as second:
        seen = [int(next(second))]
        assert list(late) == []
        with late.iterator() as shared:
            seen += [int(next(shared))]
        seen += map(int, second)

    assert sorted(seen) == list(range(40))
    assert len(list(late)) == 40  # the third pass
    assert not caplog.records


def test_one_that_was_slower_than_the_others_gets_the_end_of_a_pass_that_they_have_read(cluster):
    fast, slow = build(cluster, "slower"), build(cluster, "slower")
    with slow.iterator() as mine:
        seen = [int(next(mine))]
        seen += map(int, fast)
        assert len(list(fast)) == 40
        seen += map(int, mine)

    assert list(slow) == []
    assert sorted(seen) == list(range(40))


def test_what_goes_on_from_a_state_uses_no_used_name(cluster):
    with build(cluster, "saved").iterator() as first:
        seen = [int(next(first)) for _ in range(7)]
        state = first.state()
    again = build(cluster, "saved")
    with again.iterator(state) as rest:
        seen += map(int, rest)

    assert sorted(seen) == list(range(40))
    assert len(list(again)) == 40


def test_a_new_name_the_next_pass_and_readers_side_by_side_are_no_used_names(cluster, caplog):
    with caplog.at_level(logging.WARNING, "penstock.reader"):
        dataset = build(cluster, "fresh")
        list(dataset)
        list(dataset)
        with build(cluster, "side by side").iterator() as one:
            next(one)
            build(cluster, "side by side").iterator().close()

    assert not caplog.records
