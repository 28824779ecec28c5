"""Where definitions of datasets are kept: bytes by fingerprint."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from pathlib import Path
from typing import Protocol

from penstock.errors import ConfigError, DefinitionError, Refused
from penstock.numbers import DatasetId

_SAFE = re.compile(r"[0-9A-Za-z_-]{1,128}")
"""Fingerprints name files, and come from clients."""


class Definitions(Protocol):
    """Keeps definitions."""

    async def keep(self, dataset: DatasetId, definition: bytes) -> None:
        """Keep *definition*; the first one of a fingerprint stays."""

    async def find(self, dataset: DatasetId) -> bytes | None:
        """Return the definition, if there is one."""


class InMemory:
    """Keeps definitions for the length of a life."""

    def __init__(self) -> None:
        self._held: dict[DatasetId, bytes] = {}

    async def keep(self, dataset: DatasetId, definition: bytes) -> None:
        """See `Definitions.keep`."""
        self._held.setdefault(dataset, definition)

    async def find(self, dataset: DatasetId) -> bytes | None:
        """See `Definitions.find`."""
        return self._held.get(dataset)


class InFolder:
    """Keeps definitions as files, also for later lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(f"work_dir: {folder} cannot be made: {exc.strerror}") from exc

    async def keep(self, dataset: DatasetId, definition: bytes) -> None:
        """See `Definitions.keep`."""
        if not _SAFE.fullmatch(dataset):
            raise DefinitionError(f"{dataset[:80]!r} is no fingerprint")
        file = self._folder / dataset
        if file.exists():
            return
        try:
            await asyncio.to_thread(_write, file, definition)
        except OSError as exc:
            raise Refused(f"work_dir: {file} cannot be written: {exc.strerror}") from exc

    async def find(self, dataset: DatasetId) -> bytes | None:
        """See `Definitions.find`."""
        file = self._folder / dataset
        if not _SAFE.fullmatch(dataset) or not file.exists():
            return None
        return await asyncio.to_thread(file.read_bytes)


def _write(file: Path, data: bytes) -> None:
    """Write all of *file* or nothing."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
