"""The gRPC methods of saves that a worker hosts."""

from __future__ import annotations

from typing import Protocol

import grpc

from penstock.protocol.recording import (
    CancelRecordingRequest,
    FindRecordingRequest,
    RecordingReply,
    StartRecordingRequest,
)
from penstock.wire.rpc import UnaryRpc


class RecordingsApi(Protocol):
    """What a dispatcher answers about saves that its workers host."""

    async def start(self, request: StartRecordingRequest) -> RecordingReply:
        """Have a worker host the save; one that runs already goes on."""
        ...

    async def find(self, request: FindRecordingRequest) -> RecordingReply:
        """Return how far the save has come."""
        ...

    async def cancel(self, request: CancelRecordingRequest) -> RecordingReply:
        """Have the save stop; return how far it has come."""
        ...


def recordings_handlers(api: RecordingsApi) -> grpc.GenericRpcHandler:
    """Return handlers that answer with *api*."""
    methods = {
        "Start": START.handler(api.start),
        "Find": FIND.handler(api.find),
        "Cancel": CANCEL.handler(api.cancel),
    }
    return grpc.method_handlers_generic_handler("penstock.v1.Recordings", methods)


_SMALL = 1 << 16
"""Most bytes of a request."""

START = UnaryRpc.of("Recordings/Start", StartRecordingRequest, RecordingReply, _SMALL)
FIND = UnaryRpc.of("Recordings/Find", FindRecordingRequest, RecordingReply, _SMALL)
CANCEL = UnaryRpc.of("Recordings/Cancel", CancelRecordingRequest, RecordingReply, _SMALL)
