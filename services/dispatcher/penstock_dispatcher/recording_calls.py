"""Calls about saves that workers host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from penstock.errors import Refused
from penstock.protocol.names import check_name
from penstock.protocol.recording import (
    CancelRecordingRequest,
    FindRecordingRequest,
    RecordingReply,
    StartRecordingRequest,
)
from penstock_dispatcher.core.events import (
    Call,
    CancelRecording,
    FindRecording,
    RecordingCall,
    StartRecording,
)
from penstock_dispatcher.service import DispatcherService


class RecordingCalls:
    """Satisfies `RecordingsApi`: asks the core of *dispatcher*, which has *work_dir*."""

    def __init__(self, dispatcher: DispatcherService, work_dir: str | None) -> None:
        self._dispatcher, self._work_dir = dispatcher, work_dir

    async def start(self, request: StartRecordingRequest) -> RecordingReply:
        """See `RecordingsApi.start`."""
        for what in ("save_id", "path", "dataset_id"):
            check_name(what, getattr(request, what))
        if self._work_dir is None:
            raise Refused(
                f"the dispatcher at {self._dispatcher.address} has no work_dir (TensorFlow calls "
                "that the fault tolerant mode), so it would forget the save when it restarts: "
                "start it with a work_dir (--work-dir); or call "
                "Dataset.save, which writes the elements in its own process"
            )
        return await self._ask(partial(StartRecording, request=request))

    async def find(self, request: FindRecordingRequest) -> RecordingReply:
        """See `RecordingsApi.find`."""
        check_name("save_id", request.save_id)
        return await self._ask(partial(FindRecording, save_id=request.save_id))

    async def cancel(self, request: CancelRecordingRequest) -> RecordingReply:
        """See `RecordingsApi.cancel`."""
        check_name("save_id", request.save_id)
        return await self._ask(partial(CancelRecording, save_id=request.save_id))

    async def _ask(self, make: Callable[[Call], RecordingCall]) -> RecordingReply:
        return cast("RecordingReply", await self._dispatcher.ask_for(make))
