"""Which codec pays for a stream of frames: decided by samples, and the speed of the link.

Of a byte it counts what it takes to compress it, to carry what is left, and to decompress it, as if
one came after the other: what is saved on the link must pay for all that a codec costs. Frames are
carried while others are compressed, so more would often pay; but not where processors are busy, and
there a codec that only pays beside idle ones would slow everything down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.frames.compression import LEAST, compress, decompress
from penstock.protocol.types import Codec

FAST_LINK = 1e9
"""Bytes a second of the fastest link that is told apart, which one is taken to be at first: it is
what gRPC carries within a machine."""

SHARED_MEMORY_LINK = 1e13
"""What stands for a way on which nothing is carried: no codec pays."""

ZSTD_LINK = 400e6
"""Bytes a second of the fastest link for which ZSTD is tried: it has never paid on a faster one."""

GAIN = 0.9
"""Another codec takes over where it needs less than this part of the time, and none is worth its
while that leaves more of the bytes."""

_SAMPLE = 1 << 17
_PIECES = 4
_MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class CodecTrial:
    """What it took to compress and decompress *nbytes*, and how much was left of them."""

    codec: Codec
    nbytes: int
    stored_nbytes: int
    seconds: float

    @property
    def ratio(self) -> float:
        """How many bytes one stands for; at least 1, since what grows is sent as it is."""
        return max(1.0, self.nbytes / max(1, self.stored_nbytes))

    def cost(self, link: float) -> float:
        """Return the seconds that a byte takes over a link of so many bytes a second."""
        return self.seconds / self.nbytes + 1 / (self.ratio * link)


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """What was decided: *ratio* is that of *codec*, or what the best other one would give."""

    codec: Codec = Codec.NONE
    ratio: float = 1.0
    link: float = FAST_LINK

    def __str__(self) -> str:
        if self.codec is Codec.NONE and self.ratio < _MARGIN:
            return f"none (ratio {self.ratio:.1f})"
        than = "over " if self.link >= FAST_LINK else ""
        return f"{self.codec.value} (ratio {self.ratio:.1f}, link {than}{_megabytes(self.link)})"


def choose(trials: tuple[CodecTrial, ...], link: float, present: Codec) -> CodecChoice:
    """Return what to do over a link of so many bytes a second; *present* is what is done now."""
    costs = {trial.codec: trial.cost(link) for trial in trials if trial.ratio >= 1 / GAIN}
    costs[Codec.NONE] = 1 / link
    best = min(costs, key=lambda codec: costs[codec])
    codec = best if present not in costs or costs[best] < GAIN * costs[present] else present
    ratios = {trial.codec: trial.ratio for trial in trials}
    return CodecChoice(codec, ratios.get(codec, max(ratios.values(), default=1.0)), link)


class CodecChooser:
    """Chooses the codec of each frame of one stream.

    A sample is tried of the first frame and of every *every*-th; what it showed holds until then. A
    link that is told to be otherwise changes the choice at once.
    """

    def __init__(self, *, every: int = 32, clock: Callable[[], float] = time.thread_time) -> None:
        self.choice: CodecChoice | None = None
        """What was chosen last; None before the first frame."""
        self._every, self._clock = every, clock
        self._frames = 0
        self._trials: tuple[CodecTrial, ...] = ()
        self._link = FAST_LINK

    def set_link(self, link: float) -> None:
        """Set how many bytes a second the frames travel with."""
        if link == self._link:
            return
        self._link = link if link >= SHARED_MEMORY_LINK else min(link, FAST_LINK)
        if len(self._trials) < len(_worth_trying(self._link)):
            self._frames = 0
        elif self.choice is not None:
            self.choice = choose(self._trials, self._link, self.choice.codec)

    def choose(self, payload: memoryview) -> Codec:
        """Return the codec for the next frame, *payload*."""
        if payload.nbytes < LEAST:
            return Codec.NONE
        present = Codec.NONE if self.choice is None else self.choice.codec
        if self._frames % self._every == 0:
            sample = _sample(payload)
            codecs = _worth_trying(self._link)
            self._trials = tuple(_try(codec, sample, self._clock) for codec in codecs)
            self.choice = choose(self._trials, self._link, present)
        self._frames += 1
        return present if self.choice is None else self.choice.codec


def _worth_trying(link: float) -> tuple[Codec, ...]:
    return (Codec.LZ4, Codec.ZSTD) if link <= ZSTD_LINK else (Codec.LZ4,)


def _sample(payload: memoryview) -> memoryview:
    """Return some of all parts of *payload*: its leaves lie one behind the other."""
    if payload.nbytes <= _SAMPLE:
        return payload
    piece = _SAMPLE // _PIECES
    step = (payload.nbytes - piece) // (_PIECES - 1)
    return memoryview(b"".join(payload[at * step : at * step + piece] for at in range(_PIECES)))


def _try(codec: Codec, sample: memoryview, clock: Callable[[], float]) -> CodecTrial:
    compress(sample[:LEAST], codec)  # what is loaded once does not count
    start = clock()
    stored = compress(sample, codec)
    if stored is None:
        return CodecTrial(codec, sample.nbytes, sample.nbytes, clock() - start)
    decompress(stored, codec, sample.nbytes)
    return CodecTrial(codec, sample.nbytes, len(stored), clock() - start)


def _megabytes(link: float) -> str:
    return f"{link / 1e6:,.0f} MB/s" if link >= 1e6 else f"{link / 1e6:.2g} MB/s"
