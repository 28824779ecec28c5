"""``python -m penstock.ipc.fork_main MODULE``: a fork server with the plan of a module."""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import os
import socket
import sys

from penstock.ipc.child import ignore_interrupts
from penstock.ipc.fork_server import ForkServer, Main


class Outset:
    """The first object that a server makes, before it loads any other module.

    It notes the environment, and ends this process and its forks without Python's teardown of
    modules. For a fork with little to do, that teardown would take half of its time.
    """

    def __init__(self) -> None:
        self.environment = dict(os.environb)
        self._returned = False
        atexit.register(self._end)

    def call(self, main: Main | None) -> None:
        """Call *main*, the last function that this process runs; the server itself has none."""
        if main is not None:
            main()
        self._returned = True

    def _end(self) -> None:
        if self._returned:  # otherwise Python has an exit code or an error to show
            for stream in (sys.stdout, sys.stderr):
                # It is None if the file was closed at the start; users' code may have closed it.
                if stream is not None and not getattr(stream, "closed", False):
                    stream.flush()
            os._exit(0)


def main() -> None:
    """Serve client ``--client`` at the socket ``--requests``; each fork runs its program."""
    outset = Outset()
    ignore_interrupts()
    parser = argparse.ArgumentParser(prog="penstock-fork-server")
    parser.add_argument("module")
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--client", type=int, required=True)
    args = parser.parse_args()
    gc.disable()
    plan = importlib.import_module(args.module).fork_plan()
    gc.freeze()
    with socket.socket(fileno=args.requests) as requests:
        try:
            server = ForkServer(requests, args.client, plan, outset.environment)
        except ProcessLookupError:  # the client has ended
            return
        program = server.serve()
    outset.call(program)


if __name__ == "__main__":
    main()
