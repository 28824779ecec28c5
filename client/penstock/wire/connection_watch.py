"""Closes surplus connections from one address, because gRPC accepts them without a distinction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.runtime.accepted import AcceptedConnections, open_files
from penstock.runtime.clock import now
from penstock.wire.connections import Connections, Peer, plain_address

log = logging.getLogger("penstock.wire")

EVERY = 0.25
"""Fewest seconds between two looks; connections that arrive between fit in `max_connections`."""

CROWDED, FLOODED = 20, 4
"""The shortest pause after a look, as a multiple of its duration: if it closed none, or some.

The pause after closing some is shorter, so that a flood of connections does not last long."""

LOGGED_EVERY = 10.0
"""Seconds between two log lines about closed connections."""


@asynccontextmanager
async def watching(connections: Connections, port: int) -> AsyncIterator[None]:
    """Enforce the limits of *connections* on the connections to *port* while the block runs."""
    task = asyncio.create_task(_watch(connections, port), name="watch connections")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _watch(connections: Connections, port: int) -> None:
    accepted, pause, logged = AcceptedConnections(port), EVERY, -LOGGED_EVERY
    while True:
        await asyncio.sleep(pause)
        pause = EVERY
        if not connections.due(open_files()):
            continue
        began = now()
        try:
            closing = await _close_surplus(connections, accepted)
        except (OSError, RuntimeError) as exc:  # no more files can be open, or no thread be had
            log.warning("connections cannot be looked at now: %s", exc)
            pause = LOGGED_EVERY
            continue
        if closing and now() - logged >= LOGGED_EVERY:
            logged = now()
            _tell(closing, connections.most_strangers)
        pause = max(EVERY, (FLOODED if closing else CROWDED) * (now() - began))


async def _close_surplus(
    connections: Connections, accepted: AcceptedConnections
) -> dict[str, list[Peer]]:
    """Close surplus connections, and return them by address."""
    connections.begin()
    # In threads, because inspecting thousands of files must not delay other calls.
    found = await asyncio.to_thread(accepted.look)
    peers: dict[Peer, tuple[str, int]] = {(plain_address(h), p): (h, p) for h, p in found}
    closing = connections.found(peers)
    if closing:
        many = [peers[peer] for theirs in closing.values() for peer in theirs]
        await asyncio.to_thread(accepted.shut, many)
    return closing


def _tell(closing: dict[str, list[Peer]], most: int) -> None:
    address, theirs = max(closing.items(), key=lambda item: len(item[1]))
    log.warning(
        "closed %d connections from %s that showed no identity: more than %d may not come from "
        "one address (max_connections_per_identity, or a quarter of what RLIMIT_NOFILE allows)",
        len(theirs),
        address,
        most,
    )
