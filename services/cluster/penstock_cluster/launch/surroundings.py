"""Find this host's address as its dispatcher sees it. The kernel answers before a start."""

from __future__ import annotations

import platform
import socket
from contextlib import suppress
from dataclasses import dataclass

from penstock.credentials.local import is_loopback

LOOPBACK = "127.0.0.1"

ANSWERS_WITHIN = 1.0
"""Seconds within which something that listens on this host answers."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts that a host finds out about a dispatcher's address.

    *own_host* is the address at which hosts that reach the dispatcher also reach this host. *here*
    says whether the dispatcher's address belongs to this host, *taken* whether a process listens
    there.
    """

    own_host: str
    here: bool
    taken: bool


def look_around(target: str) -> Surroundings:
    """Examine *target*, as ``host:port``; no process listens on port 0."""
    host, _, digits = target.rpartition(":")
    name, port = host.strip("[]"), int(digits)
    own_host = LOOPBACK if is_loopback(name) else _facing(name, port)
    here = _is_here(name)
    return Surroundings(own_host, here, here and port > 0 and _listens(name, port))


def _facing(name: str, port: int) -> str:
    """Return the local address of packets to a host, without sending one."""
    with suppress(OSError):
        family, kind, _, _, address = socket.getaddrinfo(name, port or 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            own = str(probe.getsockname()[0])
        return f"[{own}]" if ":" in own else own
    return platform.node()


def _is_here(name: str) -> bool:
    """Return whether this host has the address: then a socket can be bound to it."""
    with suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM):
            with suppress(OSError), socket.socket(family, kind) as probe:
                probe.bind(address)
                return True
    return False


def _listens(name: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((name, port), ANSWERS_WITHIN):
        return True
    return False
