"""The command ``penstock-worker``, which is ``penstock worker``, too."""

from __future__ import annotations

from typing import Any

import typer

from penstock.runtime.service_command import options_of
from penstock_worker.config import WorkerConfig

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@options_of(WorkerConfig)
def run(**given: Any) -> None:
    """Run a worker until SIGTERM or Ctrl-C; it then hands its tasks to other workers.

    A second signal stops it at once.

    Each option can also be a variable, such as PENSTOCK_DISPATCHER_ADDRESS.
    """
    # The command `penstock` has these options in its help: that loads no service.
    from penstock_worker import process  # noqa: PLC0415

    process.run(**given)
