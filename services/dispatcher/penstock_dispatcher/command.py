"""The command ``penstock-dispatcher``, which is ``penstock dispatcher``, too."""

from __future__ import annotations

from typing import Any

import typer

from penstock.runtime.service_command import options_of
from penstock_dispatcher.config import DispatcherConfig

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@options_of(DispatcherConfig)
def run(**given: Any) -> None:
    """Run a dispatcher until SIGTERM or Ctrl-C.

    Each option can also be a variable, such as PENSTOCK_PORT.
    """
    # The command `penstock` has these options in its help: that loads no service.
    from penstock_dispatcher import process  # noqa: PLC0415

    process.run(**given)
