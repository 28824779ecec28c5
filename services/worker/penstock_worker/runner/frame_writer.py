"""Elements into frames, frames into the arena, and a report of each to the worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import cast

from penstock.element import Element
from penstock.errors import ElementTooLarge
from penstock.frames.codec_choice import CodecChooser
from penstock.frames.compression import compress
from penstock.frames.frame import Elements, FrameBuilder, Layout
from penstock.protocol.types import Codec
from penstock_worker.runner.arena import Arena
from penstock_worker.runner.connection import (
    RunInbox,
    RunOverError,
    WorkerConnection,
    WorkerGoneError,
)
from penstock_worker.runner.messages import ArenaFull, CodecChosen, FrameReady

FRAME_NBYTES = 1 << 20
FRAME_COUNT = 8192

LEAST_ROOM = 1024
"""Bytes that a frame of one element takes of the arena at least: the worker keeps a record of each,
and tiny elements must not make millions of them."""

MOST_FRAMES = 1 << 17
"""How many frames of a window there may be: of a cached task, too, the worker keeps records."""

IN_WINDOW = 8
"""A frame of several elements takes no more than one in so many bytes of a window."""


class FrameWriter:
    """The frames of one run. One thread puts elements in; any may flush them.

    Elements wait in a list, then in the builder, then as a frame for which there is no room yet.
    """

    def __init__(self, connection: WorkerConnection, inbox: RunInbox, arena: Arena) -> None:
        self._connection, self._inbox, self._arena = connection, inbox, arena
        self._lock = threading.Lock()
        self._pending: list[Element] = []
        self._window, single = inbox.window, inbox.start.consumers > 0
        self._told_room = inbox.start.room  # by which the arena was made ready
        self._most = _most(self._window)
        self._builder = FrameBuilder(self._most, 1 if single else FRAME_COUNT)
        self._frame: tuple[Layout, Elements] | None = None
        self._written: list[FrameReady] = []
        """Frames in the arena that the worker was not told of: it is told of several at once."""
        self._error: Exception | None = None
        """Why the element behind all that waits cannot be sent; raised in any thread."""
        self._chooser = CodecChooser()
        self._chosen = ""
        """The codec choice that the worker was told last."""
        self._since = 0.0
        self._began = self._full = time.time()
        """When the next frame was begun, which is when the last one was written; and when it was
        full."""
        self.sent = inbox.start.checkpoint.number
        """The number after the last element that was sent, or that the worker had before."""
        self.send_from = inbox.start.send_from
        """Elements below this number are there already: they are not sent."""
        self.held_up = WaitSum()
        """For how long there was no room."""
        self.fitting = 1
        """About how many of the elements that come now make a full frame, or as much for each
        consumer: each gets a message, of several frames of an element."""

    def put(self, block: list[Element]) -> None:
        """Add the next elements; cheap."""
        with self._lock:
            if (skip := min(self.send_from - self.sent, len(block))) > 0:
                self.sent += skip
                block = block[skip:]
            if not self.waiting:
                self._since = time.monotonic()
            self._pending += block

    def pack(self) -> None:
        """Send all frames that are full, as soon as there is room.

        Raises:
            ElementError: when element number `sent` cannot travel.
            RunOverError: when the worker stopped the run.
        """
        with self._lock:
            self._send_ready(everything=False, patient=True)

    def flush(self) -> None:
        """Send everything, as soon as there is room; raises as `pack` does."""
        with self._lock:
            self._send_ready(everything=True, patient=True)

    def flush_nowait(self) -> None:
        """Send everything, unless there is no room or another thread is sending."""
        if self._lock.acquire(blocking=False):
            try:
                self._connection.poll()
                self._send_ready(everything=True, patient=False)
            finally:
                self._lock.release()

    def age(self) -> float:
        """Return for how many seconds the first element that was not sent has been here."""
        return time.monotonic() - self._since if self.waiting else 0.0

    @property
    def waiting(self) -> bool:
        """Whether there is something that was not sent."""
        return bool(self._pending) or self._frame is not None or len(self._builder) > 0

    def _send_ready(self, *, everything: bool, patient: bool) -> None:
        try:
            while self._build_frame(everything=everything) and self._write_frame(patient=patient):
                self._since = time.monotonic()
        except (RunOverError, WorkerGoneError):
            raise
        except Exception as exc:
            self._error, self._frame = exc, None
            raise
        finally:
            self._post_written()

    def _build_frame(self, *, everything: bool) -> bool:
        """Build the next frame, full or with *everything*; return whether there is one."""
        if self._frame is not None:
            return True
        if self._error is None:
            self._fill()
        partial = everything or self._error is not None
        if self._builder.ready() or (partial and len(self._builder)):
            self._frame, self._full = self._builder.take(), time.time()
        elif self._error is not None:
            raise self._error
        return self._frame is not None

    def _fill(self) -> None:
        while self._pending and not self._builder.ready():
            block, self._pending = self._pending, []
            try:
                self._pending = block[self._builder.add(block) :]
            except Exception as exc:  # noqa: BLE001  raised when what comes before it is sent
                self._error = exc

    def _write_frame(self, *, patient: bool) -> bool:
        """Write the frame that is built; return whether there was room."""
        layout, elements = cast("tuple[Layout, Elements]", self._frame)
        if layout.nbytes > self._arena.largest:
            raise self._too_large(layout)
        offset = self._room(max(layout.nbytes, self._least()), patient=patient)
        if offset is None:
            return False
        self._write(layout, elements, offset)
        self._frame = None
        return True

    def _post_written(self) -> None:
        if self._written:
            reports, self._written = self._written, []
            self._connection.post(*reports)

    def _room(self, nbytes: int, *, patient: bool) -> int | None:
        inbox = self._inbox
        while True:
            while inbox.freed:
                self._arena.free(inbox.freed.popleft())
            while inbox.kept:
                self._arena.keep(inbox.kept.popleft())
            while self._connection.returned:
                self._arena.free(self._connection.returned.popleft())
            if inbox.window is not self._window or inbox.room != self._told_room:
                self._window, self._told_room = inbox.window, inbox.room
                self._arena.set_budget(self._told_room)
                self._arena.set_window(self._window)
            offset = self._arena.take(nbytes)
            if offset is not None or not patient:
                return offset
            self._post_written()
            self._connection.post(ArenaFull(inbox.start.run))
            self.held_up.begin()
            self._connection.wait(self._room_changed)
            self.held_up.end()
            if inbox.stopped:
                raise RunOverError

    def _room_changed(self) -> bool:
        inbox = self._inbox
        changed = inbox.freed or inbox.kept or self._connection.returned
        if inbox.window is not self._window or inbox.room != self._told_room:
            return True
        return bool(changed) or inbox.stopped

    def _least(self) -> int:
        """Return how many bytes a frame takes of the arena at least."""
        if self._window is not None:
            return self._window[0] // MOST_FRAMES
        return LEAST_ROOM if self._inbox.start.consumers else 0

    def _write(self, layout: Layout, elements: Elements, offset: int) -> None:
        start, placed = self._inbox.start, time.time()
        room = self._arena.room(offset, layout.nbytes)
        layout.write(elements, room)
        codec = self._choose(room) if start.codec is Codec.AUTO else start.codec
        stored, nbytes = compress(room, codec), layout.nbytes
        if stored is None:
            codec = Codec.NONE
        else:
            nbytes = len(stored)
            room[:nbytes] = stored
            self._arena.shorten(offset, max(nbytes, self._least()))
        self._inbox.flush_wanted = False
        count, raw_nbytes = layout.count, layout.nbytes
        plan = layout.to_bytes()
        where, when = (offset, nbytes, plan, codec, raw_nbytes), self._times(placed)
        self._written.append(FrameReady(start.run, self.sent, count, *where, *when))
        self.sent += layout.count
        full = self._most * layout.count // max(layout.nbytes, 1)
        self.fitting = full * max(1, start.consumers)

    def _times(self, placed: float) -> tuple[float, float, float, float]:
        """Return when a frame was begun, full, in its place and written, which is now."""
        began, self._began = self._began, time.time()
        return began, self._full, placed, self._began

    def _choose(self, payload: memoryview) -> Codec:
        """Return the codec that pays; the worker is told when that, or why, has changed."""
        self._chooser.set_link(self._inbox.link)
        codec = self._chooser.choose(payload)
        if self._chooser.choice is not None and self._chosen != (why := str(self._chooser.choice)):
            self._chosen = why
            self._connection.post(CodecChosen(self._inbox.start.run, why))
        return codec

    def _too_large(self, layout: Layout) -> ElementTooLarge:
        return ElementTooLarge(
            f"element {self.sent} takes {layout.nbytes} bytes in a frame, and a worker delivers at "
            f"most {self._arena.largest} (max_element_bytes): make elements smaller (fewer to a "
            "batch), or start the workers with a larger limit max_element_bytes"
        )


def _most(window: tuple[int, int] | None) -> int:
    """Return how many bytes a frame of several elements may take."""
    return FRAME_NBYTES if window is None else max(1, min(FRAME_NBYTES, window[0] // IN_WINDOW))


class WaitSum:
    """Adds up the time that one thread waits; any thread may ask for the sum.

    A wait that has not ended counts up to now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: tuple[float, float | None] = 0.0, None
        """The seconds before, and since when it waits now."""

    def begin(self) -> None:
        """Note that it waits from now on."""
        self._waits = self._waits[0], self._clock()

    def end(self) -> None:
        """Note that it waits no more."""
        self._waits = self.seconds, None

    @property
    def seconds(self) -> float:
        """How long it has waited, up to now."""
        before, since = self._waits
        return before if since is None else before + self._clock() - since
