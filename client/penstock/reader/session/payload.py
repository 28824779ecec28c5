"""Elements of a frame, decoded when the training loop asks for the first of them."""

from __future__ import annotations

from collections.abc import Callable
from time import time

from penstock.element import Element
from penstock.errors import VersionMismatch
from penstock.frames.frame import unpack
from penstock.protocol.data import FrameHeader, FrameTimes
from penstock.protocol.types import Codec
from penstock.reader.session.decompress_ahead import DecompressAhead, Stored


class FramePayload:
    """A frame's payload, which becomes elements when the first of them is wanted."""

    __slots__ = ("_decoded", "_elements", "_frame", "_payload", "_received", "_trace", "_writable")

    def __init__(
        self,
        frame: FrameHeader,
        payload: memoryview,
        ahead: DecompressAhead | None = None,
        *,
        writable: bool,
        trace: ReaderTrace | None = None,
    ) -> None:
        self._frame, self._writable, self._trace = frame, writable, trace
        self._payload: memoryview | Stored | None = payload
        if frame.codec is not Codec.NONE:
            hold = Stored if ahead is None else ahead.hold
            self._payload = hold(payload, frame.codec, frame.raw_nbytes)
        self._elements: list[Element] = []
        self._received = 0.0 if trace is None else trace.now()
        self._decoded = (0.0, 0.0)
        """From when to when it was decoded, if it is traced."""

    def elements(self, start: int, stop: int) -> list[Element]:
        """Return the elements with the numbers *start* to *stop*."""
        if self._trace is not None:
            return self._traced(self._trace, start, stop)
        return self._part(start, stop)

    def _traced(self, trace: ReaderTrace, start: int, stop: int) -> list[Element]:
        wanted, packed = trace.now(), self._payload is not None
        elements = self._part(start, stop)
        if packed:
            self._decoded = (wanted, trace.now())
        spans = self._frame.ranges.spans
        if stop >= spans[-1][1]:
            times = (self._received, *self._decoded, trace.now())
            trace.note(self._frame.task, FrameTimes(spans[0][0], spans[-1][1], *times))
        return elements

    def _part(self, start: int, stop: int) -> list[Element]:
        if self._payload is not None:
            self._elements = self._unpacked(self._payload)
            self._payload = None
        first = self._frame.first
        if start == first and stop == first + len(self._elements):
            return self._elements
        return self._elements[start - first : stop - first]

    def _unpacked(self, payload: memoryview | Stored) -> list[Element]:
        raw = payload.take() if isinstance(payload, Stored) else payload
        elements = unpack(self._frame.layout, raw, writable=self._writable)
        if len(elements) != self._frame.count:
            raise VersionMismatch(
                f"a frame of task {self._frame.task} holds {len(elements)} elements, and its "
                f"header says {self._frame.count}: the worker is of a version that this one does "
                "not know"
            )
        return elements


class ReaderTrace:
    """When the frames of a session that are traced were here: told to their worker with an ack."""

    def __init__(self, now: Callable[[], float] = time) -> None:
        self.now = now
        self._told: dict[int, list[FrameTimes]] = {}

    def note(self, task: int, times: FrameTimes) -> None:
        """Note that a frame of *task* was handed out; the loop's thread."""
        self._told.setdefault(task, []).append(times)

    def of(self, task: int) -> tuple[FrameTimes, ...]:
        """Return what was noted of *task* since the last call; any thread."""
        # In one step, so that what another thread notes now is not lost.
        return tuple(self._told.pop(task, ())) if self._told else ()
