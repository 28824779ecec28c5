"""``penstock save``: lets the workers of a cluster write a dataset, and shows how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.errors import WaitedTooLong
from penstock.saved.manifest import Manifest
from penstock_cluster.cli.client import Target, screen
from penstock_cluster.cli.named_dataset import named_dataset

if TYPE_CHECKING:
    from penstock.dataset.save_job import SaveJob

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

LOOK_EACH = 0.5
"""Seconds between two looks at a save."""


def save(
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME", help="a dataset in a module, or a function that returns one"
        ),
    ],
    path: Annotated[str, typer.Argument(help="the folder, which all workers reach")],
    target: Target,
    file_format: Annotated[str, typer.Option("--format", help="format of the files")] = "arrow",
    compression: Annotated[
        str, typer.Option(help="compression of the format, such as zstd; none for no compression")
    ] = "auto",
    chunk_bytes: Annotated[int, typer.Option(min=1, help="bytes of elements in a file")] = 64 << 20,
    chunk_seconds: Annotated[
        float, typer.Option(help="seconds after which a smaller file ends")
    ] = 10.0,
    order: Annotated[str, typer.Option(help="split, or any: first come")] = "split",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="replace another dataset in the folder")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="do not wait for the end")] = False,
) -> None:
    """Let the workers of a cluster write a dataset into a folder. Ctrl-C leaves the save alone."""
    from penstock import service  # noqa: PLC0415  others need no operators

    job = service.save(
        named_dataset(dataset),
        path,
        target,
        file_format,
        None if compression == "none" else compression,
        chunk_bytes=chunk_bytes,
        chunk_seconds=chunk_seconds,
        order=order,
        overwrite=overwrite,
    )
    if detach:
        screen.print(f"save {job.save_id} to {job.path}", soft_wrap=True)
    else:
        _show_until_saved(job, target)


def _show_until_saved(job: SaveJob, target: str) -> None:
    """Show how far *job* comes, until it ends. Ctrl-C leaves it alone.

    Raises:
        PenstockError: the error at which it stopped.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[size]}"),
        TimeElapsedColumn(),
    )
    try:
        with Progress(*columns, console=screen) as bar:
            line = bar.add_task("saving", total=None, size="")
            while (ended := _ended(job)) is None:
                now = job.progress()
                size = f"{now.nbytes / 1e6:,.1f} MB"
                bar.update(line, completed=now.elements, total=now.total, size=size)
            size = f"{ended.nbytes / 1e6:,.1f} MB"
            bar.update(line, completed=ended.elements, total=ended.elements, size=size)
    except KeyboardInterrupt as exc:
        screen.print(
            f"the save goes on: penstock saves list {target} shows it, and penstock saves cancel "
            f"{target} {job.save_id} stops it",
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from exc
    screen.print(f"saved {ended.elements:,} elements to {job.path}", soft_wrap=True)


def _ended(job: SaveJob) -> Manifest | None:
    try:
        return job.wait(LOOK_EACH)
    except WaitedTooLong:
        return None
