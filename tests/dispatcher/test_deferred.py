from dataclasses import replace
from types import SimpleNamespace

from penstock.errors import StoreFull
from penstock.protocol.control import ReaderHeartbeat, ReaderView, SplitRequest, WorkerHeartbeat
from penstock.protocol.types import PROTOCOL, ReaderStatus, Versions
from penstock_dispatcher.core.events import (
    DrainWorker,
    ReaderDisconnected,
    RegisterDataset,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.deferred import DeferredEvents, view_meanwhile

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")


def deferred_of(*signals):
    held = DeferredEvents()
    for signal in signals:
        held.defer(signal)
    return held


def test_of_levels_the_newest_is_deferred_in_the_order_of_its_arrival():
    held = deferred_of(
        WorkerHeartbeat("w:1", 1, 5),
        ReaderHeartbeat(7, "r", 3, 1),
        WorkerDisconnected("w:1", 1),
        WorkerHeartbeat("w:1", 1, 6),
        ReaderHeartbeat(7, "r", 3, 2),
    )

    assert held.take() == [
        WorkerDisconnected("w:1", 1),
        WorkerHeartbeat("w:1", 1, 6),
        ReaderHeartbeat(7, "r", 3, 2),
    ]
    assert held.take() == []


def test_a_repeated_request_costs_no_more():
    held = deferred_of(*(SplitRequest("w:1", 1, 4, 2, 0, 9) for _ in range(1000)))

    assert held.take() == [SplitRequest("w:1", 1, 4, 2, 0, 9)]


def test_events_of_different_peers_are_all_deferred():
    signals = [
        WorkerHeartbeat("w:1", 1, 5),
        WorkerHeartbeat("w:1", 2, 5),
        WorkerDead("w:1", 1),
        SplitRequest("w:1", 1, 4, 2, 0, 9),
        SplitRequest("w:1", 1, 4, 2, 1, 9),
        ReaderHeartbeat(7, "r", 3, 1),
        ReaderHeartbeat(7, "s", 4, 1),
        ReaderDisconnected(7, "r"),
        RegisterDataset(1, VERSIONS, "d", (), ""),
        DrainWorker(2, "w:1"),
    ]

    assert deferred_of(*signals).take() == signals


def test_ticks_are_not_deferred():
    assert deferred_of(Tick(), StartHistory(3)).take() == []


def test_calls_that_were_answered_are_dropped():
    held = deferred_of(
        RegisterDataset(1, VERSIONS, "d", (), ""),
        WorkerDisconnected("w:1", 1),
        DrainWorker(2, "w:1"),
    )

    held.drop_calls()

    assert held.take() == [WorkerDisconnected("w:1", 1)]


def test_a_reader_that_is_live_hears_what_all_wait_for_and_no_other():
    iteration = SimpleNamespace(live=[3])
    beat, full = ReaderHeartbeat(7, "r", 3, 9), StoreFull("no room")
    shown = ReaderView(5, "r", 3, ReaderStatus.LIVE, 8, {})

    told = view_meanwhile(beat, shown, iteration, full)
    assert told is not None
    assert (told.seq, told.deferred, told.waiting_for) == (9, True, "room on a disk: no room")
    assert view_meanwhile(beat, shown, iteration, None) is None
    assert view_meanwhile(beat, None, iteration, full) is None
    assert view_meanwhile(beat, shown, None, full) is None
    assert view_meanwhile(beat, shown, SimpleNamespace(live=[]), full) is None
    assert view_meanwhile(replace(beat, leaving=True), shown, iteration, full) is None
