"""A recorder: the process that commits the versions of a saved dataset, for a worker.

It reads the receipts of the elements that workers write, as any reader reads a job, and runs no
user's code. It ends with its worker.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

import msgspec

from penstock.credentials.caller import choose
from penstock.dataset.block_reader import BlockReader
from penstock.dataset.by_id import from_dataset_id
from penstock.dataset.local_save import taken_over
from penstock.errors import InternalError, MissingFile, PenstockError, Superseded
from penstock.ipc.fork_server import Main, Start
from penstock.ipc.framing import FramedSocket
from penstock.protocol.recording import NOTHING_WRITTEN, RecordingProgress, SaveStage
from penstock.protocol.types import Failure
from penstock.runtime import log_lines
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersion, SavedVersions
from penstock.saved.recording import Recording, position_of
from penstock_worker.runner.recorder_messages import RecorderOrder, RecorderReport, StopRecorder

log = logging.getLogger("penstock.recorder")

PATIENCE = 30 * 86400.0
"""Seconds for which the dispatcher or all other workers may be absent: the save waits for them."""

REPORT_EACH = 0.5
"""Seconds between reports of progress."""


def prepare(start: Start, files: Sequence[int]) -> Main:
    """Return the main function of a recorder. See `penstock.ipc.fork_server.Program`."""
    order, (sock,) = msgspec.msgpack.decode(start.details, type=RecorderOrder), files
    return partial(_run, order, sock)


def _run(order: RecorderOrder, fd: int) -> NoReturn:
    code = 1
    try:
        log_lines.configure_runner()
        with socket.socket(fileno=fd) as sock:
            _Recorder(order, FramedSocket(sock, StopRecorder)).run()
        code = 0
    except BaseException:
        log.exception("the recorder of %s ends with an error", order.path)
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


class _Recorder:
    def __init__(self, order: RecorderOrder, line: FramedSocket[StopRecorder]) -> None:
        self._order, self._line = order, line
        self._recording: Recording | None = None
        self._reading: BlockReader | None = None
        self._cancelled, self._over = threading.Event(), threading.Event()
        if order.stopping:
            self._cancelled.set()

    def run(self) -> None:
        """Commit all versions, and report the last."""
        threading.Thread(target=self._listen, daemon=True).start()
        reporting = threading.Thread(target=self._report, daemon=True)
        reporting.start()
        failure = None
        try:
            stage = self._record()
        except PenstockError as exc:
            stage, failure = SaveStage.FAILED, Failure.of(exc)
        except Exception as exc:
            log.exception("the save to %s failed", self._order.path)
            error = InternalError(f"save: worker {self._order.worker} failed: {exc!r}")
            stage, failure = SaveStage.FAILED, Failure.of(error)
        self._over.set()
        reporting.join()
        self._line.send(RecorderReport(stage, self._progress(), failure))

    def _record(self) -> SaveStage:
        order = self._order
        choose(order.target, order.credentials)
        folder = folder_of("save", order.path)
        versions = SavedVersions("save", folder)
        found = self._found(versions)
        self._recording = recording = Recording(folder, taken_over(versions, found, order.path))
        if recording.version.manifest.stage is SaveStage.COMPLETE:
            recording.clean()
            return SaveStage.COMPLETE
        receipts = from_dataset_id(
            "distributed_epoch",
            order.target,
            order.dataset_id,
            ordered=found.manifest.options.order == "split",
            timeout=PATIENCE,
        )
        state = position_of(recording.version).state
        with BlockReader(receipts.node, state) as self._reading:
            recording.run(self._reading, self._cancelled.is_set)
        return recording.version.manifest.stage

    def _found(self, versions: SavedVersions) -> SavedVersion:
        found, path = versions.latest(), self._order.path
        if found is None:
            raise MissingFile(
                f"save: worker {self._order.worker} does not find what penstock.service.save began "
                f"in {path}: give a folder that all workers and the caller reach by this name"
            )
        if found.manifest.save_id != self._order.save_id:
            raise Superseded(f"save: another dataset is written to {path}: give another path")
        return found

    def _progress(self) -> RecordingProgress:
        if self._recording is None:
            return NOTHING_WRITTEN
        version = self._recording.version
        has = version.manifest
        return RecordingProgress(has.version, has.elements, len(version.chunks), has.nbytes)

    def _report(self) -> None:
        told = NOTHING_WRITTEN
        while not self._over.wait(REPORT_EACH):
            if (progress := self._progress()) != told:
                told = progress
                self._line.send(RecorderReport(SaveStage.OPEN, progress))

    def _listen(self) -> None:
        while self._line.receive() is not None:
            self._cancelled.set()
            if (reading := self._reading) is not None:
                reading.close()
        os._exit(1)  # the worker has ended
