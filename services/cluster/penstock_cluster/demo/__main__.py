"""``python -m penstock_cluster.demo``: a cluster, a model, two epochs, an account."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.errors import PenstockError
from penstock_cluster.local import LocalCluster


def main(
    corpus: Annotated[
        Path | None,
        typer.Option(help="train on all files below this folder; by default Python's own sources"),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="number of worker processes")] = 2,
    epochs: Annotated[int, typer.Option(min=1, help="passes over the text")] = 2,
    target: Annotated[
        str | None,
        typer.Option(
            envvar="PENSTOCK_TARGET",
            help="Read from the cluster of this dispatcher, which has the same files.",
        ),
    ] = None,
) -> None:
    """Train a small language model on text that a local or given cluster prepares.

    Exits with 1 when a file was not read exactly once an epoch, or the loss did not fall.
    """
    # Not before: other commands of `penstock` do without.
    from penstock_cluster.demo.corpus import Corpus, pipeline  # noqa: PLC0415
    from penstock_cluster.demo.train import train  # noqa: PLC0415

    console = Console()
    try:
        text = Corpus.find(corpus)
        source = f"the cluster at {target}" if target else f"a dispatcher and {workers} workers"
        console.print(f"{len(text.files):,} files, {text.nbytes:,} bytes; {source}")
        with ExitStack() as held:
            if target is None:
                target = held.enter_context(LocalCluster(workers)).target
            dataset = pipeline(text, seed=1).distribute("distributed_epoch", target)
            status = train(dataset, text, epochs, console)
    except PenstockError as exc:
        console.print(f"[red]{type(exc).__name__}:[/red] {exc}", highlight=False)
        raise typer.Exit(1) from exc
    raise typer.Exit(status)


if __name__ == "__main__":
    typer.run(main)
