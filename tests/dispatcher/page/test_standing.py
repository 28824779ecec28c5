"""In one word how a worker and a pass are."""

from dataclasses import replace

import pytest

from penstock_dispatcher.page.standing import (
    PassStanding,
    WorkerStanding,
    standing_of_pass,
    standing_of_worker,
)
from tests.dispatcher.page import scenes

FINE = scenes.worker("w:1", [1], 0.0, 10.0)


@pytest.mark.parametrize(
    ("more", "standing"),
    [
        ({}, WorkerStanding.LIVE),
        ({"silent": 3.5}, WorkerStanding.SILENT),
        ({"unreachable": 2}, WorkerStanding.UNREACHABLE),
        ({"connected": False, "silent": 9.0}, WorkerStanding.DISCONNECTED),
        ({"draining": True, "silent": 9.0}, WorkerStanding.DRAINS),
    ],
)
def test_a_worker_has_one_standing(more, standing):
    assert standing_of_worker(replace(FINE, **more)) is standing


def test_a_pass_that_failed_says_so_though_nobody_reads_it():
    (one,) = scenes.healthy(0.0).iterations
    failed = replace(one.tasks[0], failure="ValueError: no")

    assert standing_of_pass(one) is PassStanding.RUNNING
    assert standing_of_pass(replace(one, unread=3.0)) is PassStanding.UNREAD
    assert standing_of_pass(replace(one, unread=3.0, tasks=(failed,))) is PassStanding.FAILED
    assert standing_of_pass(replace(one, finished=True)) is PassStanding.FINISHED
