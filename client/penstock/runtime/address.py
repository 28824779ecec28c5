"""Where a service is: ``host:port``, or ``[host]:port`` where the host has colons itself."""

from __future__ import annotations

import re
import socket

_BRACKETED = re.compile(r"\[[^\[\]]+\]")


def is_address(text: object) -> bool:
    """Return whether *text* is ``host:port``, with a port from 1 to 65535.

    A host with colons stands in brackets: without, nobody can tell its end from the port.
    """
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if (
        not host
        or set(host) & set("/ ")
        or (set(host) & set(":[]") and not _BRACKETED.fullmatch(host))
    ):
        return False
    return port.isdecimal() and 0 < int(port) < 1 << 16


def join(host: str, port: int) -> str:
    """Return the address of *port* at *host*."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(address: str) -> tuple[str, int]:
    """Return the host and the port of *address*.

    Raises:
        ValueError: when it has no port.
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def advertised(host: str, port: int) -> str:
    """Return where others reach what listens on *host*: by this machine's name, if on all of it."""
    return join(socket.gethostname() if host in {"0.0.0.0", "::"} else host, port)  # noqa: S104


def is_of_this_host(address: str) -> bool:
    """Return whether *address*, an IP address, is one of this host's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))  # nothing is sent; others' addresses cannot be had
    except OSError:
        return False
    return bool(address)
