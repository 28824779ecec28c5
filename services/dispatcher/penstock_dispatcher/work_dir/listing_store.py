"""Where the names of listed files are kept: once for each listing, however many passes read them.

Facts and snapshots hold the digest of a listing. Its names are on disk before the first fact that
refers to them, and until the last one that does is gone from there.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from penstock import files
from penstock.errors import ConfigError, DatasetError, JournalError, PenstockError
from penstock.protocol.splits import FilePattern
from penstock_dispatcher.core.events import ListSourceFiles, OpenIteration
from penstock_dispatcher.core.listings import (
    ListingOutline,
    is_whole,
    outline,
    pieces,
    read,
)
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.work_dir.atomic_file import (
    make_private_folder,
    sync_folder,
    unwritten,
    write_whole,
)

FOLDER = "listings"
"""The folder of listings in a work directory, beside the journal."""

KEPT = 600.0
"""Seconds for which a listing stays that no pass refers to: one that refers to it may be opened."""

_FILE = re.compile(r"[0-9a-f]{32}")


class ListingStore:
    """Keeps nothing: without a folder no restart reads names, because passes keep theirs."""

    async def keep(self, listing: ListingOutline, names: tuple[str, ...]) -> None:
        """Keep *names*, by the digest of *listing*. When this returns, a fact may refer to them."""

    def release(self, used: Container[str]) -> None:
        """Release all digests but those *used*: nothing durable refers to others."""

    async def sweep(self) -> None:
        """Remove listings that were released, and not kept again."""


def listings_at(work_dir: str | None, *, power: bool) -> ListingStore:
    """Return where listings are kept: below *work_dir*, or nowhere without one."""
    return (
        ListingStore() if work_dir is None else FileListings(Path(work_dir) / FOLDER, power=power)
    )


class FileListings(ListingStore):
    """Keeps each listing as a file; with *power* it outlasts its failure."""

    def __init__(
        self, folder: Path, *, power: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._power, self._clock = folder, power, clock
        self._lock = asyncio.Lock()  # so that none is kept while it is being removed
        self._released: set[str] = set()
        self._noted: dict[str, float] = {}
        """When each was last kept, or seen used."""
        try:
            make_private_folder(folder)
            if power:
                sync_folder(folder.parent)
            for file in sorted(folder.iterdir()):
                if file.name.startswith("."):
                    file.unlink()  # the process before ended while it wrote this
                elif _FILE.fullmatch(file.name):
                    self._noted[file.name] = clock()
        except OSError as exc:
            raise ConfigError(f"work_dir: {folder} cannot be used: {exc.strerror}") from exc

    async def keep(self, listing: ListingOutline, names: tuple[str, ...]) -> None:
        """See `ListingStore.keep`. A damaged file is overwritten."""
        file = self._folder / listing.digest
        async with self._lock:
            self._released.discard(listing.digest)
            self._noted[listing.digest] = self._clock()
            try:
                await asyncio.to_thread(_keep, file, listing, names, self._power)
            except OSError as exc:
                raise unwritten(file, exc, "try again") from exc

    def release(self, used: Container[str]) -> None:
        """See `ListingStore.release`."""
        now = self._clock()
        for digest, noted in list(self._noted.items()):
            if digest in used:
                self._noted[digest] = now
            elif noted < now - KEPT:
                del self._noted[digest]
                self._released.add(digest)

    async def sweep(self) -> None:
        """See `ListingStore.sweep`."""
        async with self._lock:
            while self._released:
                file = self._folder / self._released.pop()
                await asyncio.to_thread(file.unlink, missing_ok=True)


def recall(state: DispatcherState, work_dir: Path) -> None:
    """Set in the passes of *state* the names of their files, and compute their orders.

    Raises:
        JournalError: naming what cannot be read, and what to do.
    """
    known: dict[str, tuple[str, ...]] = {}
    for iteration in state.iterations.values():
        for provider in iteration.providers:
            listing = provider.listing
            if listing is None:
                continue
            if listing.digest not in known:
                known[listing.digest] = _recalled(work_dir, listing, iteration.job)
            provider.set_names(known[listing.digest], {})
            provider.make_orders()


def _recalled(work_dir: Path, listing: ListingOutline, job: str) -> tuple[str, ...]:
    file = work_dir / FOLDER / listing.digest
    try:
        names = read(file.read_bytes(), listing)
    except FileNotFoundError:
        why = "is missing"
    except OSError as exc:
        why = f"cannot be read ({exc.strerror})"
    else:
        if names is not None:
            return names
        why = "is damaged"
    raise JournalError(
        f"{file} {why}: it names the {listing.count} files that job {job[:80]!r} reads, and "
        f"whose numbers its state has. Restore the file from a copy; or delete {work_dir} to begin "
        "again: readers and workers of its jobs end with an error that says so"
    )


def _keep(file: Path, listing: ListingOutline, names: tuple[str, ...], power: bool) -> None:
    try:
        if is_whole(file.read_bytes(), listing):
            return
    except FileNotFoundError:
        pass
    write_whole(file, pieces(names), power)


@dataclass(frozen=True, slots=True)
class Listed:
    """The files of a split provider, and the orders of them that are needed at once, by seed."""

    names: tuple[str, ...]
    outline: ListingOutline
    orders: Mapping[int, files.Order]


async def listed(wanted: ListSourceFiles) -> OpenIteration:
    """Return the event to send again, with all that was *wanted*; it is found out in a thread.

    Raises:
        DatasetError: when files cannot be listed.
    """
    found, event = {}, wanted.event
    for i, pattern in wanted.patterns.items():
        try:
            found[i] = await asyncio.to_thread(
                _listed, pattern, wanted.names.get(i), wanted.seeds.get(i, ())
            )
        except PenstockError:
            raise
        except Exception as exc:
            shown = ", ".join(pattern.patterns)
            raise DatasetError(f"the dispatcher cannot list {shown}: {exc}") from exc
    return replace(
        event,
        names={**(event.names or {}), **{i: one.names for i, one in found.items()}},
        listings={**event.listings, **{i: one.outline for i, one in found.items()}},
        orders={**event.orders, **{i: one.orders for i, one in found.items()}},
    )


def _listed(pattern: FilePattern, names: tuple[str, ...] | None, seeds: tuple[int, ...]) -> Listed:
    if names is None:
        names = files.listing("list_files", pattern)
    return Listed(names, outline(names), {seed: files.order(names, seed) for seed in seeds})
