"""Whose connections there are, and which of them are too many: a core, which closes nothing itself.

A connection is of the identity that was shown on it; before one is, of the address that it comes
from. gRPC bounds how many there are in all, and knows nothing of whose they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from penstock.errors import Overloaded

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
    """Return *address* of a socket, without the zone, and of IPv4 where it stands for one.

    >>> plain_address("::ffff:10.0.0.7")
    '10.0.0.7'
    """
    return address.partition("%")[0].removeprefix("::ffff:")


@dataclass(slots=True)
class _Owner:
    name: str
    look: int
    """The look before which it was noted."""


class Connections:
    """What is known of the connections to one port.

    Args:
        most: how many one identity may have, and how many without one may come from an address.
        files: how many files the process may have open: an address gets a quarter of them at most.
    """

    def __init__(self, most: int, files: int = 1 << 31) -> None:
        self.most = most
        self.most_strangers = min(most, max(files // 4, 1))
        """How many may come from an address without an identity."""
        self._owners: dict[Peer, _Owner] = {}
        self._of: Counter[str] = Counter()
        self._looks = 0

    def claim(self, peer: Peer, name: str, *, proven: bool = True) -> None:
        """Note whose the connection from *peer* is: an identity, or an address if not *proven*.

        Raises:
            Overloaded: when *name* has as many as it may; the connection stays its address's.
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
                "some, use fewer of them for more, or raise max_connections_per_identity here"
            )
        if known is not None:  # the port came back, or somebody in between shares the connection
            self._release(known.name)
        self._owners[peer] = _Owner(name, self._looks)
        self._of[name] += 1

    def due(self, files: int) -> bool:
        """Return whether a look may find something, where the process has *files* open.

        None has more than it may where there are fewer files than that, and all that are known are
        there. So a service that is not crowded does not look.
        """
        full = any(count >= self.most for count in self._of.values())
        return full or files > self.most_strangers or len(self._owners) > files

    def begin(self) -> None:
        """Begin to look: who is noted from now on may be missing in what is found."""
        self._looks += 1

    def found(self, peers: Iterable[Peer]) -> dict[str, list[Peer]]:
        """Take what is there, the oldest first; return what to close, by address.

        What has shown no identity is closed, the oldest first: who is honest shows one at once.
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
