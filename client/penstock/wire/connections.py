"""Counts connections by identity, and closes surplus ones of an address.

A connection belongs to the identity that was shown on it. Before that, it belongs to the address
that it comes from. gRPC limits only the total number, because it does not know identities.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from penstock.errors import Overloaded
from penstock.runtime.clock import now
from penstock.runtime.descriptors import AcceptedConnections, open_files

log = logging.getLogger("penstock.wire")

EVERY = 0.25
"""Fewest seconds between two looks; connections that arrive between fit in `max_connections`."""

CROWDED, FLOODED = 20, 4
"""The shortest pause after a look, as a multiple of its duration: if it closed none, or some.

The pause after closing some is shorter, so that a flood of connections does not last long."""

LOGGED_EVERY = 10.0
"""Seconds between two log lines about closed connections."""

Peer: TypeAlias = tuple[str, int]
"""The address and the port that a connection comes from."""


def peer_named(text: str) -> Peer:
    """Return the peer that gRPC calls *text*, as ``ipv4:10.0.0.7:4242`` or ``ipv6:[::1]:4242``.

    >>> peer_named("ipv6:%5B::1%5D:4242")
    ('::1', 4242)
    """
    address, _, port = unquote(text).partition(":")[2].rpartition(":")
    return plain_address(address.strip("[]")) or text, int(port) if port.isdecimal() else 0


def plain_address(address: str) -> str:
    """Return *address* of a socket without its zone, and as IPv4 if it maps an IPv4 address.

    >>> plain_address("::ffff:10.0.0.7")
    '10.0.0.7'
    """
    return address.partition("%")[0].removeprefix("::ffff:")


@dataclass(slots=True)
class _Owner:
    name: str
    look: int
    """How many looks had begun when the connection was noted."""


class Connections:
    """The connections to one port and their owners.

    Args:
        most: how many connections an identity, or an address without identity, may have.
        files: how many files the process may open; an address gets at most a quarter of them.
    """

    def __init__(self, most: int, files: int = 1 << 31) -> None:
        self.most = most
        self.most_strangers = min(most, max(files // 4, 1))
        """How many connections without an identity may come from one address."""
        self._owners: dict[Peer, _Owner] = {}
        self._of: Counter[str] = Counter()
        self._looks = 0

    def claim(self, peer: Peer, name: str, *, proven: bool = True) -> None:
        """Note that the connection from *peer* belongs to the identity *name*.

        If not *proven*, *name* is an address.

        Raises:
            Overloaded: when *name* has too many; the connection then still counts for its address.
        """
        known = self._owners.get(peer)
        if known is not None and known.name == name:
            return
        most, whose = self.most, "one identity"
        if not proven:
            most, whose = self.most_strangers, "one address"
        if self._of[name] >= most:
            raise Overloaded(
                f"{name} has {most} connections here, which is all that {whose} may have: close "
                "some, use fewer of them for more, or raise the limit "
                "max_connections_per_identity here"
            )
        if known is not None:  # the port was reused, or a proxy shares the connection
            self._release(known.name)
        self._owners[peer] = _Owner(name, self._looks)
        self._of[name] += 1

    def due(self, files: int) -> bool:
        """Return whether a look may find something, if the process has *files* open.

        With few open files, no address can have too many connections, and all noted ones may still
        exist. So a service with few connections never looks.
        """
        full = any(count >= self.most for count in self._of.values())
        return full or files > self.most_strangers or len(self._owners) > files

    def begin(self) -> None:
        """Begin a look: connections noted from now on may be missing in its result."""
        self._looks += 1

    def found(self, peers: Iterable[Peer]) -> dict[str, list[Peer]]:
        """Take the existing connections, oldest first; return those to close, by address.

        It chooses the oldest connections without an identity, because an honest client shows its
        identity at once.
        """
        there = list(peers)
        known = set(there)
        for peer, owner in list(self._owners.items()):
            if peer not in known and owner.look < self._looks:
                del self._owners[peer]
                self._release(owner.name)
        strangers: dict[str, list[Peer]] = {}
        for peer in there:
            if peer not in self._owners:
                strangers.setdefault(peer[0], []).append(peer)
        return {
            address: theirs[: -self.most_strangers]
            for address, theirs in strangers.items()
            if len(theirs) > self.most_strangers
        }

    def _release(self, name: str) -> None:
        self._of[name] -= 1
        if not self._of[name]:
            del self._of[name]


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
