"""Which reader gets the next frame, and how much of it."""

from dataclasses import replace

import pytest

from penstock.protocol.data import Ack
from penstock.protocol.ranges import NO_RANGES
from penstock_worker.core.events import (
    SendRecall,
    SendToRunner,
    StreamAcked,
    StreamWritable,
    Tick,
)
from penstock_worker.core.sharing_readers import CHEAP, EAGER, PATIENCE
from penstock_worker.runner.messages import (
    Flush,
    RunEnded,
)
from tests.worker.core.driven_task import RUN, core_with, frames, made, of, opens, runs


@pytest.mark.parametrize(("unacked", "wants"), [(EAGER - 1, 1), (EAGER, 0)])
def test_a_reader_with_few_frames_shall_not_wait_for_a_full_one(unacked, wants):
    core = core_with()
    core.handle(opens(1), 0.0)
    for n in range(unacked):
        core.handle(made(n, n + 1, offset=n), 0.0)
        core.handle(StreamWritable(1), 0.0)
    effects = core.handle(made(unacked, unacked + 1, offset=unacked), 0.0)
    core.handle(StreamAcked(1, Ack(runs((0, 1)), 0)), 0.0)

    effects = core.handle(StreamWritable(1), 0.0)

    assert [tell.command for tell in of(SendToRunner, effects)] == [Flush(1)] * wants


def test_a_full_reader_makes_the_runner_flush_nothing():
    core = core_with()
    core.handle(opens(1, credit=0), 0.0)

    assert of(SendToRunner, core.handle(StreamWritable(1), 0.0)) == []
    assert [
        t.command for t in of(SendToRunner, core.handle(StreamAcked(1, Ack(NO_RANGES, 5)), 0.0))
    ] == [Flush(1)]


def test_a_large_frame_goes_to_one_reader_while_more_may_come():
    core = core_with()
    core.handle(opens(1, reader=1), 0.0)
    core.handle(opens(2, reader=2), 0.0)

    assert frames(core.handle(made(0, 10, nbytes=CHEAP + 1), 0.0)) == [(1, ((0, 10),))]
    assert frames(core.handle(made(10, 20, nbytes=CHEAP + 1, offset=64), 0.0)) == [(2, ((10, 20),))]


def test_the_reader_with_the_least_unacked_is_served_first():
    core = core_with()
    core.handle(opens(1, reader=1), 0.0)
    core.handle(made(0, 9), 0.0)
    core.handle(StreamWritable(1), 0.0)
    core.handle(opens(2, reader=2), 0.0)

    assert frames(core.handle(made(9, 12, offset=1), 0.0)) == [(2, ((9, 12),))]
    core.handle(StreamWritable(2), 0.0)
    assert frames(core.handle(made(12, 20, offset=2), 0.0)) == [(2, ((12, 20),))]
    core.handle(StreamWritable(2), 0.0)
    assert frames(core.handle(made(20, 21, offset=3), 0.0)) == [(1, ((20, 21),))]


@pytest.mark.parametrize(("ordered", "patience"), [(False, 0), (True, PATIENCE)])
def test_a_loop_that_reads_in_order_keeps_what_it_has_until_it_rests(ordered, patience):
    core = core_with(replace(RUN, ordered=ordered))
    core.handle(opens(1, reader=1), 0.0)
    core.handle(made(0, 20), 0.0)
    core.handle(StreamWritable(1), 0.0)
    core.handle(StreamAcked(1, Ack(runs((0, 1)), 0)), 0.0)

    core.handle(opens(2, reader=2), 0.0)
    recalled = of(SendRecall, core.handle(RunEnded(1, 20), 0.0))
    ticks = 0
    while not recalled and ticks < 2 * PATIENCE:
        ticks += 1
        recalled = of(SendRecall, core.handle(Tick(), 0.0))

    assert (ticks, [one.stream for one in recalled]) == (patience, [1])
