"""``python -m penstock_cluster.preloaded``: what members of clusters are forked from."""

from __future__ import annotations

import gc
import os
import socket
from contextlib import suppress

from penstock.ipc import fork_server
from penstock_cluster.nursery import ZYGOTES_FD


def main() -> None:
    """Load what a dispatcher and a worker load, and fork them."""
    outset = fork_server.Outset()
    gc.disable()
    # These add variables that gRPC reads.
    from penstock.runtime.versions import versions  # noqa: PLC0415
    from penstock_dispatcher import process as dispatcher  # noqa: PLC0415
    from penstock_worker import process as worker  # noqa: PLC0415

    with suppress(ImportError):  # not everywhere
        import uvloop  # noqa: F401, PLC0415
    versions()  # what it loads each worker needs

    def work() -> None:
        _adopt_door()
        worker.run()

    mains = {"penstock_dispatcher": dispatcher.run, "penstock_worker": work}
    fork_server.run(mains, outset)


def _adopt_door() -> None:
    from penstock.ipc.fork_door import ForkDoor  # noqa: PLC0415
    from penstock_worker.runner import zygote_start  # noqa: PLC0415

    door = os.environ.pop(ZYGOTES_FD, None)
    if door is not None:
        zygote_start.adopt(ForkDoor(socket.socket(fileno=int(door))))


if __name__ == "__main__":
    main()
