"""`DurableJournal`: facts on their way to disk, and the effects that wait until they are there.

1. Effects that depend on a fact are performed when the fact is written. All effects after it wait,
   too, also replies without facts of their own, because they may show unwritten facts.
2. While one transaction is being written, facts gather for the next. So a slow disk makes
   transactions larger, not more.
3. While the journal is blocked because there is no room, nothing is decided, so nothing piles up.
   Earlier decisions are tried again until they are written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from penstock.errors import ConfigError, JournalError, StoreFull
from penstock.runtime.clock import Durations
from penstock_dispatcher.core.facts import Fact
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.journal.folder import FolderLock, JournalFolder, check_whole
from penstock_dispatcher.journal.snapshot import JournalSnapshot, encode_fact, encode_facts
from penstock_dispatcher.journal.store import LoadedJournal, Store
from penstock_dispatcher.journal.writer import Work, Writer
from penstock_dispatcher.work_dir.atomic_file import make_private_file
from penstock_dispatcher.work_dir.listing_store import recall

log = logging.getLogger("penstock.dispatcher")

DurableCallback: TypeAlias = Callable[[], None]

LEAST = 1 << 20
"""A snapshot is written when the facts after the last one are at least this many bytes, and as many
as the last one."""

RETRY = 1.0
"""Seconds between two looks for room."""

CLOSE_WITHIN = 3.0
"""Seconds that a disk gets at the end to write waiting facts, and once more to close."""

STALLED = 10.0
"""Seconds after which a transaction that is not written counts as a standstill."""

MANY = 10_000
"""The most effects that wait for a slow disk; then nothing is decided until it has caught up."""


class Listener(Protocol):
    """The part of the dispatcher that makes decisions."""

    def full(self, error: StoreFull) -> None:
        """Stop deciding, for want of room, until `relieved`."""

    def relieved(self) -> None:
        """Decide again."""


class Journal:
    """The journal of a dispatcher without a folder: it keeps nothing, and lets effects through."""

    def __init__(self, state: DispatcherState | None = None) -> None:
        self.state = DispatcherState() if state is None else state
        self.full: StoreFull | None = None
        self.writes = Durations()
        """How long transactions took."""

    @property
    def blocked(self) -> bool:
        """Whether nothing may be decided now: there is no room, or the disk is far behind."""
        return False

    @property
    def halted(self) -> str:
        """The reason, in words, why decisions have no effect now; empty if they are written."""
        return ""

    def attach(self, listener: Listener) -> None:
        """Begin, on the running loop; call *listener* when decisions must stop or may continue."""

    def append(self, fact: Fact) -> None:
        """Write *fact*; it is applied to the state already."""

    def call_when_durable(self, effect: DurableCallback) -> None:
        """Run *effect* once all facts appended before it are durable; now, if they are."""
        effect()

    def look(self) -> None:
        """Check that the files are still where a restart will look for them."""

    def check(self) -> None:
        """Raise the error after which the journal cannot continue, if there is one."""

    def abandon(self) -> None:
        """Write nothing more, and run no callbacks: the state may be wrong."""

    async def aclose(self) -> None:
        """Write all appended facts, and unlock the folder."""


def open_journal(folder: Path, *, power: bool, max_pages: int | None = None) -> DurableJournal:
    """Lock *folder* and read its journal.

    Raises:
        ConfigError: when the folder cannot be had.
        JournalError: when what stands there cannot be read.
        StoreFull: when there is no room to begin.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FolderLock(folder)
    except OSError as exc:
        raise ConfigError(f"work_dir: {folder} cannot be used: {exc.strerror}") from exc
    try:
        check_whole(folder)
        with suppress(OSError):  # `Store` says what is wrong
            make_private_file(folder / "journal.db")  # its log gets the same mode
        store = Store(folder / "journal.db", power=power, max_pages=max_pages)
        try:
            loaded = store.load()
            recall(loaded.state, folder)
            return DurableJournal(lock, store, loaded)
        except BaseException:
            store.close()
            raise
    except BaseException:
        lock.release()
        raise


class DurableJournal(Journal):
    """An open journal, whose *state* the dispatcher's core changes. On one event loop."""

    def __init__(self, lock: FolderLock, store: Store, loaded: LoadedJournal) -> None:
        super().__init__(loaded.state)
        self._lock, self._store = lock, store
        self._folder_check = JournalFolder(
            store.file.parent, (lock.file, store.file, store.log, store.key)
        )
        self._changes = loaded.changes
        self._since, self._live = loaded.pending, loaded.live
        self._batch: list[msgspec.Raw] = []
        self._appended = self._written = 0
        self._waiting: deque[tuple[int, DurableCallback]] = deque()
        self._busy = self._called = self._blocked = False
        self._failed: Exception | None = None
        self._closing = self._abandoned = False
        self._write_began = 0.0
        """When the transaction began that is being written."""
        self._retrying: asyncio.TimerHandle | None = None
        self._attached = False

    @property
    def blocked(self) -> bool:
        """See `Journal.blocked`."""
        return self._blocked

    @property
    def halted(self) -> str:
        """See `Journal.halted`. A disk that takes a transaction and does not end it counts, too."""
        file, failed = self._store.file, self._failed
        if failed is not None:
            return f"{file} cannot be written: {failed}"
        if self.full is not None:
            return str(self.full)
        writes = time.perf_counter() - self._write_began if self._busy else 0.0
        if self._blocked or writes > STALLED:
            behind = self._appended - self._written
            return f"the disk of {file} has written nothing for {writes:.0f} s: {behind} facts wait"
        return ""

    def attach(self, listener: Listener) -> None:
        """See `Journal.attach`."""
        self._listener, self._attached = listener, True
        self._loop = asyncio.get_running_loop()
        self._writer = Writer()
        self._settled = asyncio.Event()
        self._settled.set()

    def append(self, fact: Fact) -> None:
        """See `Journal.append`."""
        self._changes.note(fact)
        self._batch.append(encode_fact(fact))
        self._appended += 1
        self._settled.clear()
        if not (self._busy or self._called):
            self._called = True
            self._loop.call_soon(self._write_batch)

    def call_when_durable(self, effect: DurableCallback) -> None:
        """See `Journal.call_when_durable`."""
        if self._written == self._appended:
            effect()
            return
        self._waiting.append((self._appended, effect))
        self._blocked = self._blocked or len(self._waiting) > MANY

    def look(self) -> None:
        """See `Journal.look`. Each write finds out by itself."""
        if not self._busy and self._failed is None:
            self._writer.do(self._folder_check.check, self._on_looked)

    def _on_looked(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)

    def abandon(self) -> None:
        """See `Journal.abandon`. The writer's transaction has earlier decisions, and is whole."""
        self._abandoned = True
        self._batch.clear()
        self._waiting.clear()
        if self._retrying is not None:
            self._retrying.cancel()
        if not self._busy:
            self._settled.set()

    def check(self) -> None:
        """See `Journal.check`."""
        if isinstance(self._failed, JournalError):
            raise self._failed
        if self._failed is not None:
            raise JournalError(
                f"the dispatcher cannot write {self._store.file} any more: {self._failed}; look "
                "at the disk, then start it again: everything that it acknowledged is safe"
            ) from self._failed

    async def aclose(self) -> None:
        """See `Journal.aclose`."""
        self._closing = True
        if not self._attached:  # it was never used
            self._store.close()
            self._lock.release()
            return
        if self._retrying is not None:
            self._retrying.cancel()
        elif self._failed is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_WITHIN):
                    await self._settled.wait()
        if self._appended > self._written:
            log.warning(
                "%s: %d facts were not written, and none of them was acknowledged",
                self._store.file,
                self._appended - self._written,
            )
        elif self._since and self._failed is None and not self._abandoned:
            self._writer.do(partial(self._store.compact, self._changes.snapshot()), _ignore)
        self._writer.do(self._store.close, _ignore)
        if await asyncio.to_thread(self._writer.stop, CLOSE_WITHIN):
            self._lock.release()  # else only the end of this process frees the folder

    # --- one transaction after another ---

    def _write_batch(self) -> None:
        """Pass all that was appended to the writer: as facts, or, if they are many, a snapshot."""
        self._called = False
        if self._busy or not self._batch:
            return
        row = encode_facts(self._batch)
        self._batch.clear()
        self._since += len(row)
        if self._since >= max(LEAST, self._live):
            self._compact(self._changes.snapshot())
        else:
            self._write(partial(self._store.append, self.state.length, row), None)

    def _compact(self, snapshot: JournalSnapshot) -> None:
        self._batch.clear()  # the snapshot has it
        self._since, self._live = 0, len(snapshot.live)
        self._write(partial(self._store.compact, snapshot), snapshot)

    def _write(self, work: Work, snapshot: JournalSnapshot | None) -> None:
        self._do(work, snapshot, self._appended)

    def _do(self, work: Work, snapshot: JournalSnapshot | None, noted: int) -> None:
        """Have *work* done, which writes the first *noted* facts."""
        self._busy, began = True, time.perf_counter()
        self._write_began = began

        def do() -> None:
            try:
                work()
            finally:  # what went wrong went wrong because of it
                self._folder_check.check()
                self.writes.observe(time.perf_counter() - began)

        self._writer.do(do, partial(self._on_written, noted, snapshot))

    def _on_written(
        self, noted: int, snapshot: JournalSnapshot | None, error: Exception | None
    ) -> None:
        self._busy = False
        if isinstance(error, StoreFull):
            self._on_full(noted, snapshot, error)
            return
        if error is not None:
            self._fail(error)
            return
        self._written = noted
        while self._waiting and self._waiting[0][0] <= noted:
            self._waiting.popleft()[1]()
        if self._batch:
            self._write_batch()
        else:
            self._settle()

    def _fail(self, error: Exception) -> None:
        self._failed, self._blocked = error, True
        self._settled.set()

    def _settle(self) -> None:
        self._settled.set()
        if self._blocked:
            if self.full is not None:
                log.warning("%s: there is room again", self._store.file)
            self._blocked, self.full = False, None
            self._listener.relieved()

    def _on_full(self, noted: int, snapshot: JournalSnapshot | None, error: StoreFull) -> None:
        """Try a snapshot, because it deletes all facts; then wait until there is room."""
        self._blocked = True
        if self._abandoned:
            self._settled.set()
            return
        if snapshot is None:
            self._compact(self._changes.snapshot())
            return
        if self.full is None:
            self.full = error
            log.warning("%s", error)
            self._listener.full(error)
        if self._closing:
            self._settled.set()
            return
        self._retrying = self._loop.call_later(RETRY, self._try_again, noted, snapshot)

    def _try_again(self, noted: int, snapshot: JournalSnapshot) -> None:
        """Write a snapshot again. Facts appended after it are not in it."""
        self._retrying = None
        self._do(partial(self._store.compact, snapshot), snapshot, noted)


def _ignore(_error: Exception | None) -> None:
    """Let pass what goes wrong at the end: all that matters was written before."""
