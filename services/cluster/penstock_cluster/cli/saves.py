"""``penstock saves``: shows, checks and tidies saved datasets."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.table import Table

from penstock import files
from penstock.errors import DatasetError, MissingFile
from penstock.saved.folder import SaveFolder, folder_of
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import SavedVersion, SavedVersions, SaveStage
from penstock.saved.upkeep import damage, leftovers
from penstock_cluster.cli.client import errors, explained, screen

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
    if manifest.error:
        rows.add_row("error", manifest.error)
    screen.print(rows)
    if manifest.layout:
        layout = SavedLayout.from_text(manifest.layout)
        for name, kind in zip(layout.names, layout.kinds, strict=True):
            screen.print(f"  {name}: {' '.join(map(str, kind.plain()))}", soft_wrap=True)


@app.command()
@explained
def verify(path: SavedPath, at: At = None) -> None:
    """Read all chunks and compare their checksums; exit with 1 if one is damaged."""
    folder, found = _found(path, at)
    count = 0
    for sentence in damage(folder, found):
        count += 1
        errors.print(sentence, soft_wrap=True)
    if count:
        errors.print(f"{count} of {len(found.chunks):,} chunks are not as they were written")
        raise typer.Exit(1)
    screen.print(f"all {len(found.chunks):,} chunks are as they were written")


@app.command()
@explained
def gc(
    path: SavedPath,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only name the files")] = False,
) -> None:
    """Delete what processes that died left in the folder of a complete dataset."""
    folder, found = _found(path, None)
    if found.manifest.stage is not SaveStage.COMPLETE:
        raise DatasetError(
            f"saves gc: the save to {path} is {found.manifest.stage}, and may need all files: "
            "complete it first, by the same call"
        )
    names = leftovers(folder, found)
    for name in names:
        screen.print(folder.file(name), soft_wrap=True)
        if not dry_run:
            folder.delete(name)
    screen.print(f"{len(names)} files {'would be ' if dry_run else ''}deleted")


def _found(path: str, at: int | None) -> tuple[SaveFolder, SavedVersion]:
    (name,) = files.names("saves", "PATH", path)
    folder = folder_of("saves", name)
    versions = SavedVersions("saves", folder)
    found = versions.latest() if at is None else versions.read(at)
    if found is None:
        raise MissingFile(f"saves: {name} holds no saved dataset")
    return folder, found
