"""A save at work: what `penstock.service.save` returns, and what `Dataset.save` waits for."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from typing import Self

import msgspec

from penstock.dataset.block_reader import BlockReader
from penstock.errors import DatasetError, SaveIncomplete, WaitedTooLong
from penstock.graph.node import INFINITE, Node
from penstock.graph.traversal import topological_order
from penstock.protocol.recording import SaveStage
from penstock.saved.folder import folder_of
from penstock.saved.inputs import inputs_of
from penstock.saved.manifest import (
    FOLDER,
    Manifest,
    SavedVersion,
    SavedVersions,
    SaveOptions,
)
from penstock.saved.recording import Recording, position_of
from penstock.serialization.fingerprint import explain_difference, outline


@dataclass(frozen=True, slots=True)
class SaveProgress:
    """How far a save has come, as of its last version."""

    stage: str
    """``"open"``, ``"complete"``, ``"failed"`` or ``"cancelled"``."""
    version: int
    elements: int
    """How many elements can be read."""
    chunks: int
    nbytes: int
    """Of the files."""
    total: int | None
    """How many elements there will be, if that is known."""
    seconds: float
    """Since this process began or continued the save."""


def begun(node: Node, path: str, options: SaveOptions, *, overwrite: bool) -> SavedVersion:
    """Return the version of the dataset at *path* after which saving *node* goes on.

    Raises:
        DatasetError: when *node* is infinite, or the folder holds something else.
    """
    if node.cardinality == INFINITE:
        raise DatasetError("save: the dataset is infinite: take a part of it, as take(1_000_000)")
    folder, pipeline = folder_of("save", path), outline(node)
    versions = SavedVersions("save", folder)
    fresh = Manifest(version=1, save_id=secrets.token_hex(8), outline=pipeline, options=options)
    latest = versions.latest()
    if latest is None:
        if others := sorted({*folder.entries()} - {FOLDER}):  # a saver that died may have left that
            raise DatasetError(
                f"save: {path} holds files that are no saved dataset, such as {others[0]!r}: give "
                "a new folder"
            )
        folder.check_creates(f"{FOLDER}/.probe-{secrets.token_hex(4)}")
        if versions.commit(first := SavedVersion(_with_inputs(fresh, node), ())):
            return first
        latest = versions.latest() or first  # another process began at the same moment
    now = latest.manifest
    is_same = now.outline.fingerprint == pipeline.fingerprint and now.options == options
    if is_same and not (overwrite and now.stage is SaveStage.COMPLETE):
        return _taken_over(versions, latest, path)
    if not overwrite:
        raise DatasetError(f"save: {path} has another dataset: {_difference(now, fresh)}; {_CURE}")
    again = latest.replaced_by(_with_inputs(fresh, node))
    if not versions.commit(again):
        raise _taken(path)
    return again


def _with_inputs(manifest: Manifest, node: Node) -> Manifest:
    sources = [(one.op, one.units()) for one in topological_order(node) if not one.inputs]
    return msgspec.structs.replace(manifest, inputs=inputs_of(sources))


def _taken_over(versions: SavedVersions, latest: SavedVersion, path: str) -> SavedVersion:
    """Return a version after *latest* that this process commits; it stops all other savers."""
    save_id = latest.manifest.save_id
    while latest.manifest.stage is not SaveStage.COMPLETE:
        following = latest.following((), stage=SaveStage.OPEN, error="")
        if versions.commit(following):
            return following
        latest = versions.latest(latest) or latest
        if latest.manifest.save_id != save_id:
            raise _taken(path)
    return latest


def _taken(path: str) -> DatasetError:
    return DatasetError(f"save: another process writes {path} at this moment: {_CURE}")


_CURE = "give another path, or overwrite=True to replace it"


def _difference(now: Manifest, wanted: Manifest) -> str:
    if why := explain_difference(now, wanted):
        return why
    for name in SaveOptions.__struct_fields__:
        there, here = getattr(now.options, name), getattr(wanted.options, name)
        if there != here:
            return f"its {name} is {there!r}, and not {here!r}"
    return "it is complete"


class SaveJob:
    """A save that this process runs, in a thread of its own.

    It ends when all elements are written, at an error, or when it is cancelled. If the process
    dies, the same call continues the save after its last version.

    `penstock.service.save` returns one.

    Args:
        receipts: what gives the receipts of elements that are written.
        path: the folder.
        version: the version after which saving goes on.
        total: how many elements there will be; negative if that is not known.

    >>> from penstock.service import save
    >>> from penstock_cluster import LocalCluster
    >>> with LocalCluster(workers=1) as cluster:
    ...     job = save(Dataset.range(100), "hundred", cluster.target)
    ...     job.wait(60).stage, job.progress().elements
    (<SaveStage.COMPLETE: 'complete'>, 100)
    """

    def __init__(self, receipts: Node, path: str, version: SavedVersion, total: int) -> None:
        self._receipts, self._path = receipts, path
        self._total = total if total >= 0 else None
        self._recording = Recording(folder_of("save", path), version)
        self._cancelled = threading.Event()
        self._error: BaseException | None = None
        self._began = time.monotonic()
        self._reading: BlockReader | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-save", daemon=True)

    @property
    def path(self) -> str:
        """The folder of the saved dataset."""
        return self._path

    @property
    def is_running(self) -> bool:
        """Whether elements are being written."""
        return self._thread.is_alive()

    def start(self) -> Self:
        """Begin in a thread, unless the dataset is complete."""
        if not self._is_done():
            self._thread.start()
        return self

    def _is_done(self) -> bool:
        """Return whether the dataset is complete: then at most a crash has left files."""
        is_complete = self.manifest().stage is SaveStage.COMPLETE
        if is_complete:
            self._recording.clean()
        return is_complete

    def progress(self) -> SaveProgress:
        """Return how far it has come, as of the last version."""
        now = self._recording.version
        return SaveProgress(
            stage=str(now.manifest.stage),
            version=now.manifest.version,
            elements=now.manifest.elements,
            chunks=len(now.chunks),
            nbytes=now.manifest.nbytes,
            total=self._total,
            seconds=time.monotonic() - self._began,
        )

    def manifest(self) -> Manifest:
        """Return the manifest of the last version."""
        return self._recording.version.manifest

    def wait(self, timeout: float | None = None) -> Manifest:
        """Wait until the save has ended; return its last manifest.

        Args:
            timeout: for how many seconds; None is without a limit. The save goes on after it.

        Raises:
            WaitedTooLong: after *timeout*.
            SaveIncomplete: when it was cancelled.
            PenstockError: the error at which it stopped.

        >>> from penstock.service import save
        >>> from penstock_cluster import LocalCluster
        >>> with LocalCluster(workers=1) as cluster:
        ...     save(Dataset.range(9), "nine", cluster.target).wait(60).elements
        9
        """
        if self.is_running:
            self._thread.join(timeout)
        if self.is_running:
            raise WaitedTooLong(
                f"save: {self._path} has {self.progress().elements:,} elements after {timeout} s, "
                "and goes on"
            )
        if self._error is not None:
            raise self._error
        if self.manifest().stage is SaveStage.CANCELLED:
            raise SaveIncomplete(f"save: {self._path} was cancelled: the same call continues it")
        return self.manifest()

    def cancel(self) -> None:
        """Stop it, and wait until it has stopped. What its last version has can be read."""
        self._cancelled.set()
        if (reading := self._reading) is not None:
            reading.close()
        if self.is_running:
            self._thread.join()

    def run(self) -> None:
        """Do it in this thread.

        Raises:
            PenstockError: the error at which it stopped.
        """
        if self._is_done():
            return
        state = position_of(self._recording.version).state
        with BlockReader(self._receipts, state) as self._reading:
            self._recording.run(self._reading, self._cancelled.is_set)

    def _run(self) -> None:
        try:
            self.run()
        except BaseException as exc:  # noqa: BLE001  `wait` raises it: the end is no success
            self._error = exc
