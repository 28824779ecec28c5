"""Where this host is, seen from its dispatcher: the kernel is asked, before anything starts."""

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
    """What a host knows of a dispatcher's address.

    *own_host* is how hosts that reach the dispatcher reach this one. *here* says whether the
    address is one of this host's, *taken* whether something listens there.
    """

    own_host: str
    here: bool
    taken: bool


def look_around(target: str) -> Surroundings:
    """Return what is known here of *target*, ``host:port``; port 0 is one that nobody has."""
    host, _, digits = target.rpartition(":")
    name, port = host.strip("[]"), int(digits)
    own_host = LOOPBACK if is_loopback(name) else _facing(name, port)
    here = _is_here(name)
    return Surroundings(own_host, here, here and port > 0 and _listens(name, port))


def _facing(name: str, port: int) -> str:
    """Return the address that packets to a host leave from; no packet is sent for that."""
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
