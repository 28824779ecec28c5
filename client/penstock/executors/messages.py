"""Messages between a process and the child that calls functions for it.

Each message is answered by one. Elements do not travel here: a message says where in the shared
memory they lie.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from penstock.ipc.child import ProcessEnvironment
from penstock.protocol.definition import Pickled
from penstock.protocol.types import Failure

PROGRAM = "penstock.executors.process_main"
"""The module that the child runs."""


class MemoryFrame(msgspec.Struct, array_like=True, frozen=True):
    """Elements in the shared memory: how they lie there, from which byte on, and how many bytes."""

    layout: bytes
    offset: int
    nbytes: int


class LoadFunction(msgspec.Struct, tag=True, frozen=True):
    """Load this function, and forget the one before."""

    pickled: Pickled
    contents: dict[str, memoryview]


class BeginCalls(msgspec.Struct, tag=True, frozen=True):
    """Be ready to call the function for operator *label*; *seed* is for its ``rng``."""

    label: str
    seed: int
    surroundings: ProcessEnvironment


class UseBatches(msgspec.Struct, tag=True, frozen=True):
    """Use the memory whose file follows: batches of *layout*, *stride* bytes apart."""

    layout: bytes
    stride: int


class RowRange(msgspec.Struct, array_like=True, frozen=True):
    """So many rows of the batch in a *place* of the memory for batches, from *row* on."""

    place: int
    row: int
    count: int


class CallFunction(msgspec.Struct, tag=True, frozen=True):
    """Call the function on these elements, of which the first is element *number*.

    What it gives goes into *rows*, if there are any and all of it fits there.
    """

    number: int
    frames: list[MemoryFrame]
    rows: list[RowRange]


class FunctionReady(msgspec.Struct, tag=True, frozen=True):
    """The answer to all but `CallFunction`: why it cannot be done, if so."""

    failure: Failure | None = None


class CallDone(msgspec.Struct, tag=True, frozen=True):
    """The answer to `CallFunction`: what the function gave up to an error, and that.

    *placed* is how much of it went into rows: all, or nothing. *memory* is how many bytes the
    process has now, without what it shares.
    """

    frames: list[MemoryFrame]
    placed: int
    failure: Failure | None
    memory: int


ExecutorCommand: TypeAlias = LoadFunction | BeginCalls | UseBatches | CallFunction
ExecutorReply: TypeAlias = FunctionReady | CallDone

COMMANDS: type[ExecutorCommand] = ExecutorCommand  # type: ignore[assignment]  # a union is what the decoder wants
REPLIES: type[ExecutorReply] = ExecutorReply  # type: ignore[assignment]  # as above
