"""The worker's process: ``python -m penstock_worker --dispatcher-address host:port``."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Be the command ``penstock-worker``."""
    # Modules stay for good: collections while they load are a tenth of the time of a start.
    gc.disable()
    from penstock_worker import process  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    if len(sys.argv) == 1:
        process.run()
        return
    # The command line takes as long to load as a worker; starters of many set variables.
    from penstock_worker.command import app  # noqa: PLC0415

    app()


if __name__ == "__main__":
    main()
