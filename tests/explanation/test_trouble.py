"""What is wrong with a mesh, the worst first."""

from dataclasses import replace

import pytest

from penstock.explanation.trouble import (
    JobFacts,
    MeshFacts,
    TroubleKind,
    WorkerFacts,
    duration,
    first_trouble,
)

WELL = WorkerFacts(connected=True, silent=0.4)
SILENT = WorkerFacts(connected=True, silent=4.0)
GONE = WorkerFacts(connected=False, silent=9.0)
MESH = MeshFacts("d:1", "", 3600.0, (WELL, WELL), (JobFacts(2), JobFacts(1)))


def told(**change):
    found = first_trouble(replace(MESH, **change))
    return (None, "") if found is None else (found.kind, found.sentence)


def test_of_a_mesh_that_is_well_nothing_is_told():
    assert told() == (None, "")


def test_one_worker_that_answers_is_enough_to_go_on():
    assert told(workers=(SILENT, GONE, WELL)) == (None, "")


def test_a_dispatcher_that_decides_nothing_comes_before_all_else():
    everything = {"workers": (), "jobs": (JobFacts(1, silent=1, lost=3),), "up": 1.0}

    assert told(halted="no room on /work", **everything) == (
        TroubleKind.HALTED,
        "The dispatcher decides nothing: no room on /work",
    )
    assert told(halted="no room on /work", jobs=())[0] is TroubleKind.HALTED


def test_no_worker_at_all_is_told_while_a_job_is_read():
    lost = {"workers": (), "worker_lost": 510.0}

    assert told(**lost) == (
        TroubleKind.NO_WORKER,
        "No worker is registered at d:1: the last was heard 8.5 min ago",
    )
    assert told(workers=())[1] == "No worker is registered at d:1"
    assert told(**lost, jobs=()) == (None, "")
    assert told(**lost, jobs=(JobFacts(0, unread=9.0),)) == (None, "")


def test_workers_that_are_all_silent_are_told():
    assert told(workers=(SILENT, GONE)) == (
        TroubleKind.WORKERS_SILENT,
        "None of 2 workers answers: the last was heard 4.0 s ago",
    )


def test_after_a_restart_workers_have_time_to_reconnect():
    known = (GONE, GONE)

    assert told(workers=known, up=2.0) == (
        TroubleKind.RECOVERING,
        "The dispatcher started 2.0 s ago, and waits for 2 workers to reconnect",
    )
    assert told(workers=known, up=60.0)[0] is TroubleKind.WORKERS_SILENT
    assert told(workers=(GONE, WELL), up=2.0) == (None, "")


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([JobFacts(1)] + [JobFacts(0, lost=1, unread=40.0)] * 31,
         "31 of 32 readers died; nobody reads 31 of 32 jobs"),
        ([JobFacts(1, lost=31)], "31 of 32 readers died"),
        ([JobFacts(32, silent=31)], "31 of 32 readers are silent"),
        ([JobFacts(2, silent=1, lost=1)], "1 of 3 readers died, and 1 is silent"),
    ],
)  # fmt: skip
def test_readers_that_died_are_told_however_many_go_on(jobs, words):
    assert told(jobs=tuple(jobs)) == (TroubleKind.READERS_LOST, words)


def test_readers_that_left_are_no_trouble():
    assert told(jobs=(JobFacts(0, unread=100.0), JobFacts(1))) == (None, "")


def test_only_what_stops_everything_is_said_to():
    found = [first_trouble(replace(MESH, workers=())), first_trouble(replace(MESH, halted="x"))]
    readers = first_trouble(replace(MESH, jobs=(JobFacts(1, lost=1),)))

    assert all(one is not None and one.stops for one in found)
    assert readers is not None
    assert not readers.stops


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (59.6, "60 s"), (100, "1.7 min"), (5990, "99.8 min"), (6000, "1.7 h")],
)
def test_times_have_the_unit_that_fits(seconds, words):
    assert duration(seconds) == words
