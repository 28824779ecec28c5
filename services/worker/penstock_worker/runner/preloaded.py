"""``python -P -m penstock_worker.runner.preloaded``: what zygotes are forked from."""

from __future__ import annotations

import gc

from penstock.ipc import fork_server
from penstock_worker.runner.zygote_start import MODULE


def main() -> None:
    """Load what zygotes load, and fork them."""
    outset = fork_server.Outset()
    gc.disable()
    from penstock_worker.runner import zygote  # noqa: PLC0415  what it loads may add variables

    zygote.preload()
    # A worker has variables that gRPC reads, which is not loaded here.
    fork_server.run({MODULE: zygote.main}, outset, later=(b"GRPC_",))


if __name__ == "__main__":
    main()
