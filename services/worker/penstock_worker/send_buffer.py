"""The messages to send on one reader's stream; frames are made just before they are sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.errors import PenstockError
from penstock_worker.core.events import StreamId, StreamWritable
from penstock_worker.reply_form import ReplyForm

M = TypeVar("M")


class SendBuffer(Generic[M]):
    """The messages of a stream, of one *form*, that gRPC or the reader has not asked for yet.

    It holds at most one frame, because a frame is added only when gRPC or the reader asks and the
    buffer is empty. Then it calls *ask*, which may add a frame at once or later. With a *clock*,
    *ask* is told how long gRPC took.
    """

    def __init__(
        self,
        name: StreamId,
        ask: Callable[[StreamWritable], None],
        form: ReplyForm[M],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.name, self.form = name, form
        self.wakes = 0
        self._on_writable, self._clock = ask, clock
        self._given: tuple[int, float] | None = None
        """The bytes that gRPC was given last, and when."""
        self._taken, self._seconds = 0, 0.0
        self._messages: deque[M] = deque()
        self._changed = asyncio.Event()
        self._over = False
        self._failure: PenstockError | None = None

    @property
    def nbytes(self) -> int:
        """The bytes that wait here."""
        return sum(map(self.form.nbytes, self._messages))

    def put(self, message: M) -> None:
        """Send *message* after those that wait."""
        if not self._over:
            self._messages.append(message)
            self._changed.set()

    def end(self, message: M | None = None) -> None:
        """Send *message*, if there is one, and then nothing more."""
        if message is not None:
            self.put(message)
        self._over = True
        self._changed.set()

    def fail(self, failure: PenstockError) -> None:
        """Send the waiting messages, then raise *failure*."""
        self._failure = failure
        self.end()

    def drop(self) -> None:
        """Drop the waiting messages, which can no longer be sent."""
        while self._messages:
            self.form.drop(self._messages.popleft())

    async def next(self) -> M | None:
        """Return the next message, or None after the last.

        Raises:
            PenstockError: the failure that `fail` was given.
        """
        self._note_taken()
        while not self._messages:
            if self._failure is not None:
                raise self._failure
            if self._over:
                return None
            self._changed.clear()
            event = StreamWritable(self.name, self._taken, self._seconds, self.form.borrows)
            self._taken, self._seconds = 0, 0.0
            self._on_writable(event)
            if not self._changed.is_set():
                await self._changed.wait()
                self.wakes += 1
        message = self._messages.popleft()
        if self._clock is not None:
            self._given = self.form.nbytes(message), self._clock()
        return message

    def _note_taken(self) -> None:
        if self._clock is not None and self._given is not None:
            nbytes, since = self._given
            self._taken, self._seconds = self._taken + nbytes, self._seconds + self._clock() - since
            self._given = None
