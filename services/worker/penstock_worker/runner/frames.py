"""Elements into frames, frames into the arena, and word of it to the worker."""

from __future__ import annotations

import threading
import time

from penstock.element import Element
from penstock.errors import ElementTooLarge
from penstock.messages import Codec
from penstock.wire.frame import Elements, FrameBuilder, Layout, Sampler, compress
from penstock_worker.runner.arena import Arena
from penstock_worker.runner.desk import Desk, Inbox, RunOverError, WorkerGoneError
from penstock_worker.runner.orders import Made

FRAME_NBYTES = 1 << 20
FRAME_COUNT = 8192


class Frames:
    """The frames of one run. Elements come from one thread; any may send what has come."""

    def __init__(self, desk: Desk, inbox: Inbox, arena: Arena) -> None:
        self._desk, self._inbox, self._arena = desk, inbox, arena
        self._lock = threading.Lock()
        self._builder = FrameBuilder(FRAME_NBYTES, FRAME_COUNT)
        self._sampler = Sampler()
        self._full: tuple[Layout, Elements] | None = None
        """A frame for which there was no room."""
        self._broken: Exception | None = None
        """What keeps the next element from travelling; whoever met it first."""
        self._since = 0.0
        self.sent = inbox.start.state.number
        """The number behind the last element sent."""
        self.fitting = 1
        """About how many of the elements that come now make a full frame."""

    def add(self, block: list[Element]) -> None:
        """Take in the next elements; send each frame that is full, as soon as there is room.

        Raises:
            ElementError: when element number `sent` cannot travel.
            RunOverError: when the worker wants no more.
        """
        with self._lock:
            while block:
                if not len(self._builder):
                    self._since = time.monotonic()
                block = block[self._builder.add(block) :]
                if self._builder.ready():
                    self._send_all(patient=True)

    def flush(self) -> None:
        """Send what has come, as soon as there is room; raises as `add` does."""
        with self._lock:
            self._send_all(patient=True)

    def flush_nowait(self) -> None:
        """Send what has come, unless there is no room or somebody is at it."""
        if self._lock.acquire(blocking=False):
            try:
                self._desk.look()
                self._send_all(patient=False)
            finally:
                self._lock.release()

    def age(self) -> float:
        """Return for how many seconds the first element that was not sent has been here."""
        return time.monotonic() - self._since if self.waiting else 0.0

    @property
    def waiting(self) -> bool:
        """Whether there is something that was not sent."""
        return self._full is not None or len(self._builder) > 0

    def _send_all(self, *, patient: bool) -> None:
        if self._broken is not None:
            raise self._broken
        while self.waiting:
            try:
                if self._full is None:
                    self._full = self._builder.take()
                if not self._sent(*self._full, patient=patient):
                    return
            except (RunOverError, WorkerGoneError):
                raise
            except Exception as exc:
                self._broken = exc
                raise
            self._full = None

    def _sent(self, layout: Layout, elements: Elements, *, patient: bool) -> bool:
        """Send a frame; say whether there was room."""
        if layout.nbytes > self._arena.largest:
            raise self._too_large(layout)
        offset = self._room(layout.nbytes, patient=patient)
        if offset is None:
            return False
        self._send(layout, elements, offset)
        return True

    def _room(self, nbytes: int, *, patient: bool) -> int | None:
        inbox = self._inbox
        while True:
            while inbox.freed:
                self._arena.free(inbox.freed.popleft())
            offset = self._arena.take(nbytes)
            if offset is not None or not patient:
                return offset
            self._desk.wait(lambda: bool(inbox.freed) or inbox.stopped)
            if inbox.stopped:
                raise RunOverError

    def _send(self, layout: Layout, elements: Elements, offset: int) -> None:
        start = self._inbox.start
        room = self._arena.room(offset, layout.nbytes)
        layout.write(elements, room)
        stored = compress(room, start.codec, self._sampler)
        nbytes, codec = layout.nbytes, Codec.NONE
        if stored is not None:
            nbytes, codec = len(stored), Codec.LZ4
            room[:nbytes] = stored
            self._arena.shorten(offset, nbytes)
        self._inbox.wanted = False
        count, raw_nbytes = layout.count, layout.nbytes
        plan = layout.to_bytes()
        self._desk.post(Made(start.run, self.sent, count, offset, nbytes, plan, codec, raw_nbytes))
        self.sent += layout.count
        self.fitting = FRAME_NBYTES * layout.count // max(layout.nbytes, 1)

    def _too_large(self, layout: Layout) -> ElementTooLarge:
        return ElementTooLarge(
            f"element {self.sent} takes {layout.nbytes} bytes in a frame, and a worker delivers at "
            f"most {self._arena.largest} (max_element_bytes): make elements smaller (fewer to a "
            "batch), or start the workers with a larger max_element_bytes"
        )
