"""Which workers are read on which hosts."""

from penstock.protocol.control import ReaderHeartbeat, UnreachableWorker
from penstock.protocol.loop_time import LinkTraffic, ReaderProcess
from penstock_dispatcher.core.soft_state import STANDS, find_nearby


def beat(host, *workers, rate=10.0, transport="grpc", missed=()):
    links = tuple(LinkTraffic(worker, transport, 1, 9, 9, rate) for worker in workers)
    process = None if host is None else ReaderProcess(host, 1)
    unreachable = {worker: UnreachableWorker(1, 5.0) for worker in missed}
    return ReaderHeartbeat(1, "s", 2, 1, process=process, links=links, unreachable=unreachable)


def test_a_worker_is_read_on_the_hosts_of_those_to_whom_something_comes():
    found = find_nearby([beat("a", "v", "w"), beat("b", "w")], 1.0)

    assert found.on_host_of(beat("a"), "v")
    assert found.on_host_of(beat("b"), "w")
    assert not found.on_host_of(beat("b"), "v")


def test_what_came_long_ago_or_within_a_process_or_before_it_was_missed_does_not_count():
    beats = [
        beat("a", "u", rate=0.0),
        beat("a", "v", transport="local"),
        beat("a", "w", missed=("w",)),
    ]

    assert find_nearby(beats, 1.0).read == frozenset()


def test_who_does_not_say_where_it_runs_is_on_no_host():
    found = find_nearby([beat(None, "w"), beat("", "w")], 1.0)

    assert not found.on_host_of(beat(None), "w")
    assert not found.on_host_of(beat(""), "w")


def test_what_was_found_stands_until_there_are_newer_heartbeats():
    found = find_nearby([], 1.0)

    assert found.stands(1.0 + STANDS / 2)
    assert not found.stands(1.0 + STANDS)
    assert not found.stands(0.5)
