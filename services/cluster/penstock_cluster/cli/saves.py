"""``penstock saves``: shows, checks and tidies saved datasets, and those being written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from penstock import files
from penstock.errors import ConfigError, DatasetError, MissingFile
from penstock.protocol.recording import SaveStage
from penstock.saved.chunk_reader import DamagedError
from penstock.saved.folder import SaveFolder, folder_of
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import SavedVersion, SavedVersions
from penstock.saved.upkeep import damage, datasets_below, leftovers, remove, too_many
from penstock_cluster.cli.client import (
    DISPATCHER,
    Target,
    ask,
    errors,
    explained,
    screen,
    split_places,
)
from penstock_cluster.cli.client import as_json as to_json
from penstock_cluster.cli.named_dataset import named_dataset
from penstock_cluster.cli.save_rows import saves_table
from penstock_cluster.cli.status import look

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset

app = typer.Typer(
    name="saves",
    help="Show, check and tidy saved datasets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SavedPath = Annotated[str, typer.Argument(help="folder of a saved dataset", metavar="PATH")]
At = Annotated[int | None, typer.Option(min=1, help="a version; by default the newest")]


@app.command()
@explained
def show(
    path: SavedPath,
    at: At = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the manifest")] = False,
) -> None:
    """Show how far a save has come, and what the elements have."""
    _, found = _found(path, at)
    if as_json:
        whole = msgspec.structs.replace(found.manifest, base=0, before=0, chunks=found.chunks)
        print(msgspec.json.encode(whole).decode())  # noqa: T201  as it is, not folded by rich
        return
    manifest = found.manifest
    rows = Table.grid(padding=(0, 2))
    rows.add_row("stage", str(manifest.stage))
    rows.add_row("version", f"{manifest.version:,}")
    rows.add_row("elements", f"{manifest.elements:,}")
    rows.add_row("chunks", f"{len(found.chunks):,}, {manifest.nbytes:,} bytes")
    options = manifest.options
    rows.add_row("format", f"{options.format}, compression {options.compression or 'none'}")
    rows.add_row("pipeline", manifest.outline.summary)
    for one in manifest.inputs:
        names = f"{', '.join(one.first)}{', …' if one.count > len(one.first) else ''}"
        rows.add_row("input", f"{one.count:,} files, {one.nbytes:,} bytes: {names}")
    if manifest.error:
        rows.add_row("error", manifest.error)
    screen.print(rows)
    if manifest.layout:
        layout = SavedLayout.from_text(manifest.layout)
        for name, kind in zip(layout.names, layout.kinds, strict=True):
            screen.print(f"  {name}: {' '.join(map(str, kind.plain()))}", soft_wrap=True)


@app.command("list")
@explained
def list_saves(
    target: Target,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """List the saves that the workers of a cluster write, and the newest that ended."""
    saves = look(target).stats.saves
    if as_json:
        print(to_json(saves=saves))  # noqa: T201  as it is, not as rich would fold it
    elif saves:
        screen.print(saves_table(saves))
    else:
        screen.print("no save is known")


@app.command("cancel")
@explained
def cancel_save(
    ctx: typer.Context,
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[TARGET] SAVE", help=f"{DISPATCHER}; then the id or the path of a save"
        ),
    ],
) -> None:
    """Stop a save. Its elements so far can be read, and the same call continues it."""
    *before, name = places
    target, _ = split_places(ctx, before)
    saves = [one for one in look(target).stats.saves if one.stage == "open"]
    meant = [one for one in saves if name in (one.save_id, one.path)]
    if len(meant) != 1:
        known = ", ".join(f"{one.save_id} ({one.path})" for one in saves) or "none"
        raise ConfigError(
            f"{name!r} is the id or the path of {len(meant)} saves; those that are open: {known}"
        )
    save_id = meant[0].save_id
    found = ask(target, lambda dispatcher: dispatcher.cancel_recording(save_id))
    screen.print(
        f"the save to {found.path} is being cancelled; it has {found.progress.elements:,} elements",
        soft_wrap=True,
    )


@app.command()
@explained
def verify(
    path: SavedPath,
    at: At = None,
    repair: Annotated[
        str | None,
        typer.Option(
            help="make damaged chunks again with the dataset that was saved", metavar="MODULE:NAME"
        ),
    ] = None,
) -> None:
    """Read all chunks and compare their checksums; exit with 1 if one stays damaged."""
    folder, found = _found(path, at)
    dataset = None
    if repair is not None:
        from penstock.dataset.loading import check_repair  # noqa: PLC0415  others need no operators

        dataset = named_dataset(repair)
        check_repair(found.manifest, dataset)
    count = mended = 0
    for number, sentence in damage(folder, found):
        count += 1
        errors.print(sentence, soft_wrap=True)
        if dataset is not None:
            mended += _mend(folder, found, number, dataset)
    if mended:
        screen.print(f"{mended} chunks were made again")
    if count > mended:
        errors.print(
            f"{count - mended} of {len(found.chunks):,} chunks are not as they were written"
        )
        raise typer.Exit(1)
    screen.print(f"all {len(found.chunks):,} chunks are as they were written")


def _mend(folder: SaveFolder, version: SavedVersion, number: int, dataset: Dataset) -> bool:
    """Write chunk *number* again; return whether that was possible."""
    from penstock.ops.internal.made_again import (  # noqa: PLC0415  others need no operators
        chunk_made_again,
    )

    try:
        data = chunk_made_again(dataset.node, version, number)
    except DamagedError as exc:
        errors.print(str(exc), soft_wrap=True)
        return False
    name = version.name(number)
    with folder.writing(name):
        folder.write(name, data)
    return True


@app.command()
@explained
def gc(
    path: Annotated[
        str, typer.Argument(help="folder of saved datasets, or of one", metavar="PATH")
    ],
    keep_days: Annotated[
        float | None,
        typer.Option(min=0, help="remove snapshots that were written more days ago", metavar="N"),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(min=0, help="remove the oldest snapshots beyond this size", metavar="B"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only name the files")] = False,
) -> None:
    """Delete files that no version needs any more, and snapshots beyond the bounds.

    Files that running readers may need stay for an hour: call it again later. A dataset of `save`
    is never removed.
    """
    (name,) = files.names("saves gc", "PATH", path)
    found = list(datasets_below(name))
    if not found:
        raise MissingFile(f"saves gc: {name} holds no saved dataset")
    seconds = None if keep_days is None else keep_days * _DAY
    versions = [version for _, version in found]
    removed = too_many(versions, seconds, max_bytes)
    for folder, version in map(found.__getitem__, removed):
        nbytes = f"{version.manifest.nbytes:,} bytes"
        screen.print(f"{folder.path}: its elements, {nbytes}, in an hour", soft_wrap=True)
        if not dry_run:
            remove(folder, version)
    at_work, names = [], 0
    for number, (folder, version) in enumerate(found):
        if version.manifest.stage in _AT_REST:
            names += _delete(folder, version, dry_run=dry_run)
        elif number not in removed:
            at_work.append(f"{folder.path} is {version.manifest.stage}")
    screen.print(f"{names} files {'would be ' if dry_run else ''}deleted")
    for sentence in at_work:
        errors.print(f"{sentence}, and may need all files: complete it by the same call")
    if at_work and len(found) == 1:
        raise typer.Exit(2)


_AT_REST = {SaveStage.COMPLETE, SaveStage.REMOVED}
_DAY = 86_400.0


def _delete(folder: SaveFolder, version: SavedVersion, *, dry_run: bool) -> int:
    names = leftovers(folder, version)
    for name in names:
        screen.print(folder.file(name), soft_wrap=True)
        if dry_run:
            continue
        try:
            folder.delete(name)
        except OSError as exc:
            raise DatasetError(
                f"saves gc: {folder.file(name)} cannot be deleted ({exc}): see who may write to "
                "its folder"
            ) from exc
    return len(names)


def _found(path: str, at: int | None) -> tuple[SaveFolder, SavedVersion]:
    (name,) = files.names("saves", "PATH", path)
    folder = folder_of("saves", name)
    versions = SavedVersions("saves", folder)
    found = versions.latest() if at is None else versions.read(at)
    if found is None:
        raise MissingFile(f"saves: {name} holds no saved dataset")
    return folder, found
