"""What must be true of each version of a saved dataset, and of its folder at last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pyarrow.feather
from pyarrow import parquet

from penstock.protocol.recording import SaveStage
from penstock.saved.folder import folder_of
from penstock.saved.manifest import DATA, SavedVersion, SavedVersions, manifest_name
from penstock.saved.receipts import NEW
from simulation.world import LawBroken


class Versions:
    """All versions that were committed to the folder at *path*, which each is judged once."""

    def __init__(self, path: Path, wanted: Sequence[range]) -> None:
        self._path, self._wanted = path, wanted
        self._versions = SavedVersions("law", folder_of("law", str(path)))
        self.all: list[SavedVersion] = []
        self._rows: dict[str, list[int]] = {}
        """The rows of each save, by its id."""
        self.counts: list[int] = []
        """How many rows each version has."""
        self.began: dict[str, int] = {}
        """The first version of each save."""

    @property
    def latest(self) -> SavedVersion | None:
        return self.all[-1] if self.all else None

    def rows(self, save_id: str) -> list[int]:
        """Return all rows of a save."""
        return self._rows[save_id]

    def wanted(self, version: SavedVersion) -> range:
        """Return the elements that the save of *version* is of."""
        (made,) = version.manifest.outline.stages
        return next(one for one in self._wanted if made.values["start"] == str(one.start))

    def is_replaced(self, save_id: str) -> bool:
        """Return whether another save began after the one with this id."""
        return list(self.began)[-1] != save_id

    def look(self) -> None:
        """Judge the versions that are new."""
        while (self._path / manifest_name(len(self.all) + 1)).exists():
            self._judge(self._versions.read(len(self.all) + 1))

    def _judge(self, new: SavedVersion) -> None:
        now, before = new.manifest, self.latest
        if now.version != len(self.all) + 1:
            raise LawBroken(f"version {len(self.all) + 1} says it is {now.version}")
        if before is not None and before.manifest.save_id == now.save_id:
            if before.manifest.stage is SaveStage.COMPLETE:
                raise LawBroken(f"version {now.version} follows a complete one of its save")
            if new.chunks[: len(before.chunks)] != before.chunks:
                raise LawBroken(f"version {now.version} does not go on after the one before it")
        elif now.save_id in self._rows:
            raise LawBroken(f"version {now.version} is of a save that was replaced")
        self.began.setdefault(now.save_id, now.version)
        rows = self._rows.setdefault(now.save_id, [])
        added, at = [], 0
        for name, chunk in zip(new.names, new.contents, strict=True):
            if at + chunk.count > len(rows):  # a chunk replaces pieces that were read
                added += self.read(name, chunk.nbytes, chunk.crc32c)[max(0, len(rows) - at) :]
            at += chunk.count
        rows += added
        self.all.append(new)
        self.counts.append(len(rows))
        if now.elements != len(rows):
            raise LawBroken(f"version {now.version} says {now.elements} rows and has {len(rows)}")
        self._judge_rows(new, rows)

    def _judge_rows(self, new: SavedVersion, rows: list[int]) -> None:
        now, wanted = new.manifest, list(self.wanted(new))
        if now.options.order == "split":
            if rows != wanted[: len(rows)]:
                raise LawBroken(f"version {now.version} has {rows}, which are not in order")
        elif len(set(rows)) < len(rows) or not set(rows) <= set(wanted):
            raise LawBroken(f"version {now.version} has {rows}, some twice")
        if now.stage is SaveStage.COMPLETE and len(rows) != len(wanted):
            raise LawBroken(f"version {now.version} is complete, and has {rows}")

    def read(self, name: str, nbytes: int, crc32c: int) -> list[int]:
        """Return the rows of a chunk, as others read it."""
        try:
            data = (self._path / name).read_bytes()
        except FileNotFoundError:
            raise LawBroken(f"{name} is listed, and not there") from None
        if len(data) != nbytes or google_crc32c.value(data) != crc32c:
            raise LawBroken(f"{name} is listed, and not whole")
        read = parquet.read_table if data.startswith(b"PAR1") else pa.feather.read_table
        return [int(x) for x in read(pa.BufferReader(data))["element"].to_pylist()]

    def check_whole(self) -> None:
        """Check that the newest save is complete, and that no version has changed."""
        latest = self.latest
        assert latest is not None
        for version in self.all:
            if self._versions.read(version.manifest.version) != version:
                raise LawBroken(f"version {version.manifest.version} has changed")
        if latest.manifest.stage is not SaveStage.COMPLETE:
            raise LawBroken(f"the last save is {latest.manifest.stage}")

    def check_bounds(self, counts: list[int]) -> None:
        """Check that the chunks of the newest version end where their elements say."""
        assert self.latest is not None
        if (found := [chunk.count for chunk in self.latest.chunks]) != counts:
            raise LawBroken(f"chunks have {found} elements, and not {counts}")

    def check_chunks(self) -> None:
        """Check that all chunks of the newest version are there."""
        latest = self.latest
        assert latest is not None
        for name, chunk in zip(latest.names, latest.chunks, strict=True):
            self.read(name, chunk.nbytes, chunk.crc32c)

    @property
    def replaced(self) -> set[str]:
        """The chunks of saves that were replaced."""
        return {
            name
            for version in self.all
            if self.is_replaced(version.manifest.save_id)
            for name in version.names
        }

    def leftovers(self) -> set[str]:
        """Return the files that no chunk of the newest version needs."""
        names = set(self.latest.names) if self.latest else set()
        found = {
            f"{under}/{file.name}"
            for under in (DATA, NEW)
            if (self._path / under).is_dir()
            for file in (self._path / under).iterdir()
        }
        return found - names


def counts_of_chunks(splits: list[int], chunk_bytes: int) -> list[int]:
    """Return how many elements of 8 bytes each chunk has, of splits of so many elements."""
    full, least = -(-chunk_bytes // 8), chunk_bytes / 64
    counts: list[int] = []
    short = 0
    for split in splits:
        for count in [*[full] * (split // full), split % full]:
            if count >= least:
                counts += [short, count] if short else [count]
                short = 0
            elif short + count >= least:
                counts.append(short + count)
                short = 0
            else:
                short += count
    return [*counts, short] if short else counts
