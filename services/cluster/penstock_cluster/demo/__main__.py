"""``python -m penstock_cluster.demo``: a cluster, a model, two epochs, an account."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.errors import PenstockError
from penstock_cluster import LocalCluster
from penstock_cluster.demo.corpus import Corpus, pipeline
from penstock_cluster.demo.train import train


def main(
    corpus: Annotated[
        Path | None,
        typer.Option(help="Train on all files below this folder instead of Python's own sources."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the text.")] = 2,
) -> None:
    """Train a small language model on text that a local cluster prepares.

    Exits with 1 when a file was not read exactly once an epoch, or the loss did not fall.
    """
    console = Console()
    try:
        text = Corpus.find(corpus)
        console.print(
            f"{len(text.files):,} files, {text.nbytes:,} bytes; a dispatcher and {workers} workers"
        )
        with LocalCluster(workers) as cluster:
            dataset = pipeline(text, seed=1).distribute("distributed_epoch", cluster.target)
            status = train(dataset, text, epochs, console)
    except PenstockError as exc:
        console.print(f"[red]{type(exc).__name__}:[/red] {exc}", highlight=False)
        raise typer.Exit(1) from exc
    raise typer.Exit(status)


if __name__ == "__main__":
    typer.run(main)
