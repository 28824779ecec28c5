"""Ports of loopback that nothing listens on."""

import socket
from contextlib import ExitStack


def free_port():
    """Return one: for a process that has to be told before it starts."""
    return free_ports(1)[0]


def free_ports(count):
    """Return *count* different ones."""
    with ExitStack() as held:
        servers = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]
