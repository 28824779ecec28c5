"""Ports of loopback that nothing listens on, and that the system gives to nobody by itself."""

import random
import socket
from contextlib import ExitStack, suppress

PORTS = range(12_000, 32_000)
"""Those below the ones that connections get: between two uses of a port nobody else has it."""


def free_port():
    """Return one: for a process that has to be told before it starts."""
    return free_ports(1)[0]


def free_ports(count):
    """Return *count* different ones."""
    chance = random.SystemRandom()
    with ExitStack() as held:
        found = []
        while len(found) < count:
            port = chance.choice(PORTS)
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
        return found
