"""Messages between a worker and its zygote: one msgpack value a packet."""

from __future__ import annotations

import msgspec

from penstock_worker.runner.landlock import FileRules

PACKET_NBYTES = 1 << 17
"""No packet is larger; the largest holds the worker's module search path."""


class ForkPacket(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all."""


class ForkRunner(ForkPacket, frozen=True):
    """Fork a runner with the socket and the arena that come with this.

    *budget* and *largest* are those of `Arena`. The rest is how the worker differs from the
    zygote by now: directory, module search path and environment (None: the variable is not set);
    and how much less than the worker it may: see `Confinement`.
    """

    request_id: int
    budget: int
    largest: int
    directory: bytes
    path: list[bytes]
    environment: dict[bytes, bytes | None]
    memory: int = 0
    uid: int = -1
    gid: int = -1
    files: FileRules = FileRules()
    niceness: int = 0


class KillRunner(ForkPacket, frozen=True):
    """End runner *pid* at once, with all that it started; nothing if it has ended."""

    pid: int


class Forked(ForkPacket, frozen=True):
    """The runner of request *request_id* is process *pid*."""

    request_id: int
    pid: int


class NotForked(ForkPacket, frozen=True):
    """The system has no room for another process, or for its arena."""

    request_id: int
    reason: str


class Exited(ForkPacket, frozen=True):
    """Runner *pid* is gone: by signal *signum*, or with *exit_code* if that is 0."""

    pid: int
    signum: int
    exit_code: int


class Unfit(ForkPacket, frozen=True):
    """The zygote could not fork soundly, and ends."""

    reason: str


ForkRequest = ForkRunner | KillRunner
ForkReply = Forked | NotForked | Exited | Unfit

_ENCODER = msgspec.msgpack.Encoder()
_REQUESTS: msgspec.msgpack.Decoder[ForkRequest] = msgspec.msgpack.Decoder(ForkRequest)
_ANSWERS: msgspec.msgpack.Decoder[ForkReply] = msgspec.msgpack.Decoder(ForkReply)


def encode(packet: ForkPacket) -> bytes:
    """Return *packet* as it travels."""
    return _ENCODER.encode(packet)


def decode_request(data: bytes) -> ForkRequest:
    """Read what a worker sent."""
    return _REQUESTS.decode(data)


def decode_answer(data: bytes) -> ForkReply:
    """Read what a zygote sent."""
    return _ANSWERS.decode(data)
