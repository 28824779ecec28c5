"""A save that workers write and one of them hosts: what `penstock.service.save` returns."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.dataset.local_save import begun
from penstock.errors import FileChanged, SaveIncomplete, WaitedTooLong
from penstock.graph.traversal import DatasetBase
from penstock.ops.write_chunks import WriteChunks
from penstock.protocol.recording import RecordingReply, SaveStage, StartRecordingRequest
from penstock.reader.registration import call, register_dataset
from penstock.saved.folder import folder_of
from penstock.saved.manifest import Manifest, SavedVersion, SavedVersions, SaveOptions

if TYPE_CHECKING:
    from penstock.wire.dispatcher import DispatcherClient

LOOK_EACH = 0.1
"""Seconds between two questions of `SaveJob.wait`."""

_LEAST = 1.0
"""Seconds that the dispatcher has for an answer, also if the caller waits for less."""


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
    worker: str = ""
    """The address of the worker that commits it; nothing if none does now."""


def hosted(
    writing: WriteChunks,
    options: SaveOptions,
    address: str,
    *,
    overwrite: bool,
    timeout: float,
    announce: Callable[[], None] = lambda: None,
) -> SaveJob:
    """Begin or continue the save that *writing* writes, on the workers of a dispatcher.

    *announce* is called when the folder has its first version, and before anything is written.

    Raises:
        DatasetError: as `begun`.
        Refused: when the dispatcher at *address* has no work_dir.
        WaitedTooLong: when no dispatcher answers within *timeout* seconds.
    """
    written = DatasetBase.concrete(writing)
    dataset_id = register_dataset(address, written, element_spec=None, timeout=timeout)
    version = begun(writing.upstream, writing.path, options, overwrite=overwrite, hosted=True)
    total = writing.upstream.cardinality
    job = SaveJob(writing.path, version, total, address, timeout)
    announce()
    if version.manifest.stage is not SaveStage.COMPLETE:
        save_id = version.manifest.save_id
        request = StartRecordingRequest(save_id, writing.path, dataset_id, total)
        call(address, timeout, lambda dispatcher: dispatcher.start_recording(request))
    return job


class SaveJob:
    """A save that the workers of a cluster write, and one of them commits.

    It goes on when this process ends. The same call of `penstock.service.save`, in any process,
    returns it again. It ends when all elements are written, at an error of the pipeline or of the
    folder, or when it is cancelled.

    Args:
        path: the folder.
        version: its newest version.
        total: how many elements there will be; negative if that is not known.
        address: the dispatcher.
        timeout: seconds for which the dispatcher may be absent.

    >>> from penstock.service import save
    >>> from penstock_cluster import LocalCluster
    >>> with LocalCluster(workers=1) as cluster:
    ...     job = save(Dataset.range(100), "hundred", cluster.target)
    ...     job.wait(60).stage, job.progress().elements
    (<SaveStage.COMPLETE: 'complete'>, 100)
    """

    def __init__(
        self, path: str, version: SavedVersion, total: int, address: str, timeout: float
    ) -> None:
        self._path, self._version = path, version
        self._total = total if total >= 0 else None
        self._address, self._timeout = address, timeout
        self._began = time.monotonic()

    @property
    def path(self) -> str:
        """The folder of the saved dataset."""
        return self._path

    @property
    def save_id(self) -> str:
        """Names the save among those of a dispatcher, as in ``penstock saves list``."""
        return self._version.manifest.save_id

    def progress(self) -> SaveProgress:
        """Return how far it has come. Reads the folder, and asks the dispatcher.

        Raises:
            FileChanged: when another dataset replaced this one.
            WaitedTooLong: when the dispatcher does not answer.
        """
        now = self.manifest()
        stage, worker = now.stage, ""
        if stage is not SaveStage.COMPLETE:
            hosted = self._found()
            stage, worker = hosted.stage, hosted.worker
        return SaveProgress(
            stage=str(stage),
            version=now.version,
            elements=now.elements,
            chunks=len(self._version.chunks),
            nbytes=now.nbytes,
            total=self._total,
            seconds=time.monotonic() - self._began,
            worker=worker,
        )

    def manifest(self) -> Manifest:
        """Return the manifest of the newest version. Reads the folder.

        Raises:
            FileChanged: when another dataset replaced this one.
        """
        versions = SavedVersions("save", folder_of("save", self._path))
        found = versions.latest(self._version) or self._version
        if found.manifest.save_id != self.save_id:
            raise FileChanged(f"save: another dataset replaced this one in {self._path}")
        self._version = found
        return found.manifest

    def wait(self, timeout: float | None = None) -> Manifest:
        """Wait until the save has ended; return its last manifest.

        Args:
            timeout: for how many seconds; None is without a limit. The save goes on after it.

        Raises:
            WaitedTooLong: after *timeout*; or when the dispatcher does not answer.
            SaveIncomplete: when it was cancelled.
            FileChanged: when another dataset replaced this one.
            PenstockError: the error at which it stopped.

        >>> from penstock.service import save
        >>> from penstock_cluster import LocalCluster
        >>> with LocalCluster(workers=1) as cluster:
        ...     save(Dataset.range(9), "nine", cluster.target).wait(60).elements
        9
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if self.manifest().stage is SaveStage.COMPLETE:  # the dispatcher may have forgotten it
            return self._version.manifest
        while True:
            hosted = self._found(deadline)
            if hosted.failure is not None:
                raise hosted.failure.error()
            if hosted.stage is SaveStage.CANCELLED:
                raise SaveIncomplete(
                    f"save: {self._path} was cancelled: the same call continues it"
                )
            if hosted.stage is SaveStage.COMPLETE:
                break
            if deadline is not None and time.monotonic() > deadline:
                raise WaitedTooLong(
                    f"save: {self._path} has {hosted.progress.elements:,} elements after "
                    f"{timeout:g} s, and goes on"
                )
            time.sleep(LOOK_EACH)
        return self.manifest()

    def cancel(self) -> None:
        """Stop it, and wait until it has stopped. The elements of its last version can be read.

        Raises:
            WaitedTooLong: when no worker has committed that within the *timeout* of the save. A
                worker does so as soon as one is there.
        """
        deadline = time.monotonic() + self._timeout
        found = self._asked(lambda dispatcher: dispatcher.cancel_recording(self.save_id))
        while found.stage is SaveStage.OPEN:
            if time.monotonic() > deadline:
                raise WaitedTooLong(
                    f"save: no worker has stopped the save to {self._path} within "
                    f"{self._timeout:g} s: one does so as soon as it is there"
                )
            time.sleep(LOOK_EACH)
            found = self._found(deadline)

    def _found(self, deadline: float | None = None) -> RecordingReply:
        return self._asked(lambda dispatcher: dispatcher.find_recording(self.save_id), deadline)

    def _asked(
        self,
        ask: Callable[[DispatcherClient], Awaitable[RecordingReply]],
        deadline: float | None = None,
    ) -> RecordingReply:
        timeout = self._timeout
        if deadline is not None:
            timeout = min(timeout, max(_LEAST, deadline - time.monotonic()))
        return call(self._address, timeout, ask)
