"""A reader on the worker's host: the memory that it has mapped, and what it has borrowed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, assert_never

from penstock.protocol.data import FrameHeader
from penstock.transport.link_messages import (
    GiveBack,
    Lent,
    LentFrame,
    Mapped,
    Memory,
    MemoryGone,
    Said,
)
from penstock.wire.worker import encode_frames
from penstock_worker.linked_reader import LinkedReader, Messages, Outgoing
from penstock_worker.reply_form import Payload
from penstock_worker.runner.messages import FrameReady
from penstock_worker.runner.process import RunnerProcess

log = logging.getLogger("penstock.worker")

SMALL = 1 << 10
"""Frames of fewer bytes are sent as they are: that costs less than to borrow them."""

ANSWER_WITHIN = 1.0
"""Seconds that a reader gets to map memory; after that it is sent copies until it has."""


@dataclass(slots=True)
class _Announced:
    """A runner's memory, by the number that the reader knows it by."""

    memory: int
    mapped: bool = False


class LocalReader(LinkedReader):
    """One reader's connection over a unix socket, and what it has borrowed; see `LinkedReader`."""

    borrows: ClassVar[bool] = True

    def __init__(self, *link: Any, **what: Any) -> None:
        super().__init__(*link, near=True, **what)
        self._announced: dict[RunnerProcess, _Announced] = {}
        self._memories = 0
        self._unanswered: set[int] = set()
        self._answered = asyncio.Event()

    def _on_gone(self, why: str) -> None:
        self._announced.clear()
        super()._on_gone(why)

    def _send(self, message: Outgoing) -> None:
        self._line.send(message.message)

    def _hear_of_memory(self, message: Mapped | GiveBack) -> None:
        match message:
            case Mapped(memory, why):
                self._on_mapped(memory, why)
            case GiveBack(loans):
                self._runners.give_back(self._borrower, loans)
            case _:
                assert_never(message)

    async def _settled(self) -> None:
        """Wait a while for an answer about memory: what is sent meanwhile would be copied."""
        if self._unanswered:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_WITHIN):
                    await self._answered.wait()

    def _on_mapped(self, memory: int, why: str) -> None:
        for announced in self._announced.values():
            if announced.memory == memory:
                announced.mapped = not why
        self._unanswered.discard(memory)
        if not self._unanswered:
            self._answered.set()

    def _frames(
        self, stream: int, frames: Sequence[tuple[FrameHeader, FrameReady]], payload: Payload
    ) -> Messages:
        """Return messages of *frames*: lent where that can be, else with copies."""
        messages: Messages = []
        lent: list[LentFrame] = []
        copied: list[tuple[FrameHeader, memoryview]] = []

        def flush() -> None:
            if lent:
                loans = tuple(frame.loan for frame in lent)
                messages.append(Outgoing(Lent(stream, tuple(lent)), loans=loans))
                lent.clear()
            if copied:
                messages.append(Outgoing(Said(stream, encode_frames(copied))))
                copied.clear()

        for header, frame in frames:
            memory = self._memory(frame)
            if memory is None:
                if lent:
                    flush()
                copied.append((header, payload(frame)))
                continue
            if copied:
                flush()
            loan = self._runners.lend(self._borrower, frame)
            where = (memory, frame.offset, frame.nbytes)
            lent.append(LentFrame(header, *where, loan.number, loan.out))
        flush()
        return messages

    def _memory(self, frame: FrameReady) -> int | None:
        """Return by what number the reader has the memory of *frame* mapped, if it has."""
        if frame.nbytes < SMALL:
            return None
        runner = self._runners.runner_of(frame)
        if runner is None:
            return None
        announced = self._announced.get(runner)
        if announced is None:
            announced = self._announce(runner)
        return announced.memory if announced is not None and announced.mapped else None

    def _announce(self, runner: RunnerProcess) -> _Announced | None:
        for before in [known for known in self._announced if known.arena_file < 0]:
            self._line.send(MemoryGone(self._announced.pop(before).memory))
        file = runner.arena_file
        self._memories += 1
        there = Memory(self._memories, runner.arena.nbytes, os.fstat(file).st_ino)
        try:
            self._line.send(there, file)
        except OSError as exc:
            log.warning("a reader on this host gets copies: %s", exc)
            return None
        self._unanswered.add(self._memories)
        self._answered.clear()
        announced = self._announced[runner] = _Announced(self._memories)
        return announced
