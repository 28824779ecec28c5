"""Which codec pays for a stream of frames: decided by samples, and the speed of the link.

The cost of a byte is the time to compress it, plus the time to send the compressed bytes, plus the
time to decompress them. So the time saved on the link must pay for all the work of a codec. In
fact, one frame is sent while another is compressed, so more compression would often pay. But if the
processors are busy, a codec that pays only with idle processors would slow everything down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from penstock.frames.compression import LEAST, compress, decompress
from penstock.protocol.types import Codec

FAST_LINK = 1e9
"""The highest speed of a link that is distinguished, in bytes a second: gRPC within a machine.
Every link counts as one of this speed at first."""

SHARED_MEMORY_LINK = 1e13
"""The speed, in bytes a second, that stands for shared memory: on it, no codec pays."""

ZSTD_LINK = 400e6
"""ZSTD is tried on links of at most this speed, in bytes a second: on faster ones it never paid."""

GAIN = 0.9
"""Another codec replaces the present one if it needs less than this part of its time. A codec that
leaves more than this part of the bytes is not used."""

_SAMPLE = 1 << 17
_PIECES = 4
_MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class CodecTrial:
    """The time to compress and decompress *nbytes*, and the size of the compressed bytes."""

    codec: Codec
    nbytes: int
    stored_nbytes: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Bytes for each compressed byte; at least 1, because a sample that grows is sent raw."""
        return max(1.0, self.nbytes / max(1, self.stored_nbytes))

    def cost(self, link: float) -> float:
        """Return the seconds that a byte takes over a link of *link* bytes a second."""
        return self.seconds / self.nbytes + 1 / (self.ratio * link)


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """The decision. *ratio* is that of *codec*; without one, that of the best codec tried."""

    codec: Codec = Codec.NONE
    ratio: float = 1.0
    link: float = FAST_LINK

    def __str__(self) -> str:
        if self.codec is Codec.NONE and self.ratio < _MARGIN:
            return f"none (ratio {self.ratio:.1f})"
        than = "over " if self.link >= FAST_LINK else ""
        return f"{self.codec.value} (ratio {self.ratio:.1f}, link {than}{_megabytes(self.link)})"


def choose(trials: tuple[CodecTrial, ...], link: float, present: Codec) -> CodecChoice:
    """Return the codec for a link of *link* bytes a second; *present* is the codec in use."""
    costs = {trial.codec: trial.cost(link) for trial in trials if trial.ratio >= 1 / GAIN}
    costs[Codec.NONE] = 1 / link
    best = min(costs, key=lambda codec: costs[codec])
    codec = best if present not in costs or costs[best] < GAIN * costs[present] else present
    ratios = {trial.codec: trial.ratio for trial in trials}
    return CodecChoice(codec, ratios.get(codec, max(ratios.values(), default=1.0)), link)


class CodecChooser:
    """Chooses the codec of each frame of one stream.

    It tries the codecs on a sample of the first frame and of every *every*-th after it; the result
    holds until the next sample. If the speed of the link changes, the choice changes at once.
    """

    def __init__(self, *, every: int = 32, clock: Callable[[], float] = time.thread_time) -> None:
        self.choice: CodecChoice | None = None
        """The last choice; None before the first frame."""
        self._every, self._clock = every, clock
        self._frames = 0
        self._trials: tuple[CodecTrial, ...] = ()
        self._link = FAST_LINK

    def set_link(self, link: float) -> None:
        """Set the speed at which frames travel, in bytes a second."""
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
    """Return pieces from all parts of *payload*, because its leaves lie one after the other."""
    if payload.nbytes <= _SAMPLE:
        return payload
    piece = _SAMPLE // _PIECES
    step = (payload.nbytes - piece) // (_PIECES - 1)
    return memoryview(b"".join(payload[at * step : at * step + piece] for at in range(_PIECES)))


def _try(codec: Codec, sample: memoryview, clock: Callable[[], float]) -> CodecTrial:
    compress(sample[:LEAST], codec)  # the first call loads the codec, and that does not count
    start = clock()
    stored = compress(sample, codec)
    if stored is None:
        return CodecTrial(codec, sample.nbytes, sample.nbytes, clock() - start)
    decompress(stored, codec, sample.nbytes)
    return CodecTrial(codec, sample.nbytes, len(stored), clock() - start)


def _megabytes(link: float) -> str:
    return f"{link / 1e6:,.0f} MB/s" if link >= 1e6 else f"{link / 1e6:.2g} MB/s"
