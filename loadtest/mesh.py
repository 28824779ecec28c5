"""The cluster under load: what its processes use, and workers that join it and leave it."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from loadtest.histogram import Histogram
from loadtest.report import Cost
from penstock.errors import PenstockError, UnknownDataset
from penstock.reader.arguments import address_of, service_of
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_cluster.member import Member

LOOK_EVERY = 0.5
"""Seconds between two looks at the cluster, at least."""

LOOKS = 20
"""A look is followed by so many times as long without one: of many workers it is no small load."""

ASK_EVERY = 0.1
"""Seconds between two questions that take the dispatcher next to nothing: how long is an answer?"""

NOBODY = "loadtest asks whether the dispatcher answers"
"""The id of a dataset that nobody registers."""

START_WITHIN = 30.0
"""Seconds within which a worker that joins must have registered."""


@dataclass(slots=True)
class Watch:
    """Looks at the dispatcher's counters; `costs` is the newest that was seen.

    `answers` is how long the dispatcher took for a small answer, as it is for a heartbeat.
    """

    target: str
    answers: Histogram = field(default_factory=Histogram)
    costs: dict[str, Cost] = field(default_factory=dict)
    trouble: str = ""
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def going(self) -> Iterator[None]:
        """Look until the end of the block."""
        thread = threading.Thread(target=self._run, name="loadtest-watch")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._look())
        except Exception as exc:  # noqa: BLE001  who shows the load shows this
            self.trouble = f"the cluster is not watched any more: {type(exc).__name__}: {exc}"

    async def _look(self) -> None:
        async with connect(service_of(self.target)) as channel:
            client, look_at = DispatcherClient(channel, timeout=20.0), 0.0
            while not self._over.is_set():
                try:
                    await self._ask(client)
                    if (began := time.monotonic()) >= look_at:
                        self.costs, self.trouble = _costs(json.loads(await client.status())), ""
                        now = time.monotonic()
                        look_at = now + max(LOOK_EVERY, LOOKS * (now - began))
                except Exception as exc:  # noqa: BLE001  whatever it is, the next look may do better
                    named = isinstance(exc, PenstockError)
                    self.trouble = str(exc) if named else f"{type(exc).__name__}: {exc}"
                await asyncio.to_thread(self._over.wait, ASK_EVERY)

    async def _ask(self, client: DispatcherClient) -> None:
        began = time.monotonic()
        with suppress(UnknownDataset):
            await client.find_dataset(NOBODY)
        self.answers.add(time.monotonic() - began)


def _costs(stats: dict[str, Any]) -> dict[str, Cost]:
    found = {"dispatcher": stats.get("usage")}
    for worker in stats["workers"]:
        found[worker["address"]] = (worker["stats"] or {}).get("usage")
    return {name: Cost(use["cpu"], use["memory"]) for name, use in found.items() if use}


class Churn:
    """Workers of this machine that join the cluster, and leave it by SIGTERM or SIGKILL in turn."""

    def __init__(self, target: str) -> None:
        self.joined = self.left = 0
        self._env = {"PENSTOCK_DISPATCHER_ADDRESS": address_of(target)}
        self._member: Member | None = None
        self._ways = itertools.cycle((Member.terminate, Member.kill))

    def step(self) -> str:
        """Let a worker join, or the one that did leave; return what happened, in words."""
        if self._member is None or not self._member.running:
            self._member = Member("penstock_worker", "churning worker", self._env, START_WITHIN)
            ready = self._member.launch()
            self._member.wait_ready(ready, time.monotonic() + START_WITHIN)
            self.joined += 1
            return f"worker {self._member.address} joined"
        way = next(self._ways)
        way(self._member)
        self.left += 1
        return f"worker {self._member.address} left by {way.__name__}"

    def close(self) -> None:
        """End the worker that is left."""
        if self._member is not None:
            self._member.close()
