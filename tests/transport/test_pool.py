"""One transport to each worker, as long as it is needed."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from penstock.errors import Unavailable
from penstock.protocol.nearness import Distance, KnownWorker, WorkerProfile
from penstock.transport import in_process, pool, registry
from penstock.transport.pool import TransportPool
from penstock.transport.registry import TransportKind
from penstock.wire import worker as wire


@dataclass
class Way:
    """A transport that only says where it leads."""

    to: str
    broken: bool = False


@pytest.fixture
def channels(monkeypatch):
    """What happened to channels, in order."""
    seen = []

    @asynccontextmanager
    async def connect(worker, *, caller, server):
        assert server == "worker.penstock.internal"
        seen.append(("open", worker))
        await asyncio.sleep(0)
        yield Way(worker)
        seen.append(("close", worker))

    monkeypatch.setattr(wire, "connect", connect)
    monkeypatch.setattr(wire, "WorkerClient", lambda channel: channel)
    return seen


@pytest.fixture
def shared(monkeypatch):
    """A transport that leads to workers whose addresses do not begin with ``far``."""

    @asynccontextmanager
    async def open_(worker, _caller):
        if worker.address.startswith("far"):
            raise Unavailable("its memory is not to be seen here")
        yield Way(f"memory of {worker.address}")

    kinds = {**registry.KINDS, "shared": TransportKind("shared", Distance.SAME_HOST, open_)}
    monkeypatch.setattr(pool, "KINDS", kinds)
    monkeypatch.setattr(pool.platform, "node", lambda: "h")


def known(address, incarnation=1, *, offers=("grpc", "shared", "local")):
    return KnownWorker(address, incarnation, WorkerProfile("h", offers))


async def test_all_tasks_of_a_worker_share_a_transport(channels):
    async with TransportPool() as transports:
        wanted = map(transports.to, map(KnownWorker, ("a", "b", "a")))
        one, other, again = await asyncio.gather(*wanted)

        assert one is again
        assert other == Way("b")
        assert transports.counts == {"grpc": 2}
    assert channels[:2] == [("open", "a"), ("open", "b")]
    assert sorted(channels[2:]) == [("close", "a"), ("close", "b")]
    assert transports.chosen == {"a": "grpc", "b": "grpc"}


async def test_a_worker_that_went_has_its_transport_closed_and_gets_another(channels):
    async with TransportPool() as transports:
        before, _ = await transports.to(KnownWorker("a")), await transports.to(KnownWorker("b"))

        await transports.keep({"b"})
        assert channels[-1] == ("close", "a")
        assert transports.chosen == {"b": "grpc"}

        assert await transports.to(KnownWorker("a")) is not before


async def test_another_life_of_a_worker_gets_another_transport(channels):
    async with TransportPool() as transports:
        before = await transports.to(known("a", 1))

        assert await transports.to(KnownWorker("a")) is before
        assert await transports.to(known("a", 2)) is not before
    assert channels == [(what, "a") for what in ("open", "close") * 2]


async def test_a_transport_that_broke_is_closed_and_replaced(channels):
    async with TransportPool() as transports:
        before = await transports.to(known("a"))
        before.broken = True

        assert await transports.to(known("a")) is not before
    assert channels == [(what, "a") for what in ("open", "close") * 2]


async def test_the_nearest_is_taken_and_what_was_chosen_shows(channels, shared, caplog):
    async with TransportPool() as transports:
        assert await transports.to(known("a")) == Way("memory of a")
        assert await transports.to(known("b", offers=())) == Way("b")
        assert transports.chosen == {"a": "shared", "b": "grpc"}
        with in_process.offered("c", 1, None):
            assert isinstance(await transports.to(known("c")), in_process.InProcessTransport)
    assert caplog.messages == []


async def test_what_cannot_be_made_is_said_once_and_replaced_by_grpc(channels, shared, caplog):
    async with TransportPool("shared") as transports:
        for _ in range(2):
            assert await transports.to(known("far")) == Way("far")
            await transports.keep(set())
        assert await transports.to(known("a")) == Way("memory of a")
    line = "worker far is not read by transport 'shared', but by gRPC: its memory is not to be seen"
    assert caplog.messages == [f"{line} here"]


async def test_what_is_wanted_and_not_offered_is_said_and_replaced_by_grpc(
    channels, shared, caplog
):
    async with TransportPool("shared") as transports:
        assert await transports.to(known("a", offers=("grpc", "local"))) == Way("a")
    assert caplog.messages == [
        "worker a is not read by transport 'shared', but by gRPC: it offers grpc, local"
    ]


async def test_a_worker_that_does_not_answer_is_no_wait_for_the_others(channels, monkeypatch):
    answers = asyncio.Event()

    @asynccontextmanager
    async def open_(worker, _caller):
        if worker.address == "slow":
            await answers.wait()
        yield Way(f"memory of {worker.address}")

    kinds = {**registry.KINDS, "shared": TransportKind("shared", Distance.SAME_HOST, open_)}
    monkeypatch.setattr(pool, "KINDS", kinds)
    monkeypatch.setattr(pool.platform, "node", lambda: "h")
    async with TransportPool() as transports:
        first = asyncio.ensure_future(transports.to(known("slow")))
        await asyncio.sleep(0)

        assert await transports.to(known("a")) == Way("memory of a")
        await transports.keep({"a"})
        assert not first.done()

        answers.set()
        assert await first == await transports.to(known("slow")) == Way("memory of slow")


async def test_all_that_is_not_kept_is_closed_also_when_that_is_cut_short(monkeypatch):
    closed = set()

    @asynccontextmanager
    async def open_(worker, _caller):
        yield Way(worker.address)
        closed.add(worker.address)
        await asyncio.sleep(0)

    kinds = {**registry.KINDS, "shared": TransportKind("shared", Distance.SAME_HOST, open_)}
    monkeypatch.setattr(pool, "KINDS", kinds)
    monkeypatch.setattr(pool.platform, "node", lambda: "h")
    async with TransportPool() as transports:
        for name in "abc":
            await transports.to(known(name))
        keeping = asyncio.ensure_future(transports.keep(set()))
        await asyncio.sleep(0)
        assert transports.chosen == {}
        keeping.cancel()
        await asyncio.wait({keeping})

        assert closed == set("abc")


async def test_a_way_that_was_slow_to_fail_is_left_alone_for_a_minute(channels, monkeypatch):
    now, tries = [100.0], []

    @asynccontextmanager
    async def dropped(worker, _caller):
        tries.append(worker.address)
        now[0] += 2
        raise Unavailable("it said nothing for 2 s")
        yield

    kinds = {**registry.KINDS, "shared": TransportKind("shared", Distance.ELSEWHERE, dropped)}
    monkeypatch.setattr(pool, "KINDS", kinds)
    monkeypatch.setattr(pool, "_avoided", {})
    monkeypatch.setattr(pool.clock, "now", lambda: now[0])
    for _ in range(3):  # as three passes do
        async with TransportPool() as transports:
            await transports.to(known("a"))
            assert transports.counts == {"grpc": 1}
    assert tries == ["a"]

    now[0] += 60
    async with TransportPool() as transports:
        await transports.to(known("a"))
        await transports.to(known("a", 2))
    assert tries == ["a", "a", "a"]
