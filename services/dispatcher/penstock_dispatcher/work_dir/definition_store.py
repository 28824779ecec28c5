"""Where definitions of datasets are kept: bytes by fingerprint, and by the Python they need.

A definition with functions can be loaded by one minor version of Python. The same pipeline made by
another one has the same fingerprint, and is a *variant* of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from penstock.errors import ConfigError, DefinitionError
from penstock.protocol.types import DatasetId
from penstock_dispatcher.work_dir.atomic_file import (
    make_private_folder,
    unwritten,
    without_descriptors,
    write_whole,
)
from penstock_dispatcher.work_dir.folder_key import own_key

_SAFE = re.compile(r"[0-9A-Za-z_-]{1,128}")
"""Fingerprints name files, and come from clients."""

_PYTHON = re.compile(r"(\d{1,3}\.\d{1,3})?")

_FILE = re.compile(rf"({_SAFE.pattern})\.(any|{_PYTHON.pattern})")

_SUM = 16
"""Bytes before a definition on disk: a keyed digest of its name and of all that follows. Nobody can
put another definition there without the key."""

KEPT = 600.0
"""Seconds for which a definition stays since it last came, whether or not it is registered yet."""

log = logging.getLogger("penstock.dispatcher")

V = TypeVar("V")
"""The form in which a store keeps a definition."""


class DefinitionStore(Generic[V]):
    """Keeps definitions; *python* is the version that one needs; nothing if any can load it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._definitions: dict[DatasetId, dict[str, V]] = {}
        self._dates, self._clock = dict[DatasetId, float](), clock

    async def keep(self, dataset: DatasetId, definition: bytes, python: str = "") -> None:
        """Keep *definition*; the first whole one of a fingerprint and a version stays."""
        raise NotImplementedError

    async def find(self, dataset: DatasetId, python: str = "") -> bytes | None:
        """Return the definition that *python* can load, or any without one, if there is one.

        Raises:
            Overloaded: when that cannot be seen now.
        """
        variants = self._definitions.get(dataset, {})
        for one in [each for each in variants if not python or each in ("", python)]:
            if (data := await self._read(dataset, variants[one])) is not None:
                return data
            variants.pop(one, None)
        return None

    def variants(self, dataset: DatasetId) -> tuple[str, ...]:
        """Return the versions that there are definitions for."""
        return tuple(self._definitions.get(dataset, ()))

    def sizes(self) -> Iterator[tuple[DatasetId, str, int]]:
        """Yield each definition that is there now, with its version and how many bytes it takes."""
        for dataset, variants in self._definitions.items():
            for python, one in variants.items():
                with suppress(OSError):  # it was removed meanwhile
                    yield dataset, python, self._size(one)

    async def forget(self, used: Container[DatasetId]) -> list[DatasetId]:
        """Forget those that are not *used* and did not come lately; return them."""
        limit = self._clock() - KEPT
        unused = [name for name, at in self._dates.items() if at < limit and name not in used]
        for dataset in unused:
            del self._dates[dataset]
            for one in self._definitions.pop(dataset, {}).values():
                self._remove(one)
        return unused

    async def _read(self, dataset: DatasetId, one: V) -> bytes | None:
        raise NotImplementedError

    def _size(self, one: V) -> int:
        raise NotImplementedError

    def _remove(self, one: V) -> None:
        """Remove what is left of a definition."""

    def _note(self, dataset: DatasetId) -> dict[str, V]:
        """Note that a definition of *dataset* came; return its variants."""
        self._dates[dataset] = self._clock()
        return self._definitions.setdefault(dataset, {})


def definitions_at(work_dir: str | None, *, power: bool, key: bytes = b"") -> DefinitionStore[Any]:
    """Return where definitions are kept: below *work_dir*, or in memory without one.

    Those on disk are sealed with *key*, or with one of *work_dir*, which is made if there is none.
    """
    if work_dir is None:
        return MemoryDefinitions()
    folder = Path(work_dir)
    return FileDefinitions(folder / "datasets", power=power, key=key or own_key(folder))


class MemoryDefinitions(DefinitionStore[bytes]):
    """Keeps definitions in memory."""

    async def keep(self, dataset: DatasetId, definition: bytes, python: str = "") -> None:
        """See `DefinitionStore.keep`."""
        self._note(dataset).setdefault(python, definition)

    async def _read(self, _: DatasetId, one: bytes) -> bytes:
        return one

    def _size(self, one: bytes) -> int:
        return len(one)


class FileDefinitions(DefinitionStore[Path]):
    """Keeps definitions as files, also for restarts; with *power* they survive power failures."""

    def __init__(
        self,
        folder: Path,
        *,
        power: bool = False,
        key: bytes = b"",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self._folder, self._power, self._key = folder, power, key
        try:
            make_private_folder(folder)
            for file in sorted(folder.iterdir()):
                if file.name.startswith("."):
                    file.unlink()  # the process before ended while it wrote this
                elif (found := _FILE.fullmatch(file.name)) and file.stat().st_size:
                    self._note(DatasetId(found[1]))["" if found[2] == "any" else found[2]] = file
        except OSError as exc:
            raise ConfigError(f"work_dir: {folder} cannot be used: {exc.strerror}") from exc

    async def keep(self, dataset: DatasetId, definition: bytes, python: str = "") -> None:
        """See `DefinitionStore.keep`."""
        if not _SAFE.fullmatch(dataset):
            raise DefinitionError(f"{dataset[:80]!r} is no fingerprint")
        if not _PYTHON.fullmatch(python):
            raise DefinitionError(f"{python[:80]!r} is no version of Python, as 3.11 is one")
        file = self._folder / f"{dataset}.{python or 'any'}"
        self._note(dataset)  # first: a new definition is not forgotten meanwhile
        if await self._read(dataset, file) is None:
            try:
                parts = (_digest(dataset, definition, self._key), definition)
                await asyncio.to_thread(write_whole, file, parts, self._power)
            except OSError as exc:
                raise unwritten(file, exc, "register the dataset again") from exc
        self._note(dataset)[python] = file

    async def _read(self, dataset: DatasetId, one: Path) -> bytes | None:
        """Return a definition. A damaged one is none: a reader registers it again."""
        return await asyncio.to_thread(_read, one, dataset, self._key)

    def _size(self, one: Path) -> int:
        return one.stat().st_size - _SUM

    def _remove(self, one: Path) -> None:
        one.unlink(missing_ok=True)


def _read(file: Path, dataset: DatasetId, key: bytes) -> bytes | None:
    """Return the definition in *file* if it is there and unchanged.

    Raises:
        Overloaded: when no more files can be opened now: nobody needs to register it for that.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError:  # never written, or removed
        return None
    except OSError as exc:
        if (lacking := without_descriptors(file, exc, "read", "ask again")) is not None:
            raise lacking from exc
        log.warning("%s cannot be read (%s): it must be registered again", file, exc.strerror)
        return None
    if not hmac.compare_digest(_digest(dataset, memoryview(data)[_SUM:], key), data[:_SUM]):
        log.warning(
            "%s is damaged, or somebody changed it: it must be registered again, and then is "
            "overwritten",
            file,
        )
        return None
    return data[_SUM:]


def _digest(dataset: DatasetId, definition: bytes | memoryview, key: bytes) -> bytes:
    digest = hashlib.blake2b(dataset.encode(), digest_size=_SUM, key=key[:64])
    digest.update(definition)
    return digest.digest()
