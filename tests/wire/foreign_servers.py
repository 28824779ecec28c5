"""Servers at an address that are none of ours."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stranger_that_says(data: bytes) -> Iterator[str]:
    """Listen on a free port, give the address; say *data* to each connection and hang up."""

    class Say(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(data)

    # Not `asyncio.start_server`: closed just as it accepts, it drops the socket unclosed.
    with socketserver.TCPServer(("127.0.0.1", 0), Say) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
