"""Settings of TCP connections between readers and workers."""

from __future__ import annotations

import socket

PROBE_AFTER, PROBE_EVERY, PROBES = 3, 3, 3
"""Seconds of silence after which the system asks the other host whether it is there; seconds
between two questions, and how many without an answer end the connection."""

UNACKED_FOR = 12.0
"""Seconds for which sent bytes may stay unacknowledged; then the connection ends."""


def tune(sock: socket.socket) -> None:
    """Send at once what is written to *sock*, and notice within `UNACKED_FOR` a silent host."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": PROBE_AFTER,
        "TCP_KEEPINTVL": PROBE_EVERY,
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": int(UNACKED_FOR * 1000),
    }
    for name, value in options.items():
        if (option := getattr(socket, name, None)) is not None:  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
