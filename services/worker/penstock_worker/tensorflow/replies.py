"""Replies to TensorFlow's clients, made of what a reader of ours reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dataset.iterator import DatasetIterator
from penstock.element import nbytes
from penstock.frames.tensors import compressed_reply, element_reply
from penstock.protocol.tensorflow import FoundTask
from penstock.protocol.types import Mode
from penstock.reader.agreement import CrossTrainerCache
from penstock.reader.arguments import WholeName
from penstock.service import ShardingPolicy, from_dataset_id

MODES = (Mode.OFF, Mode.DYNAMIC, Mode.FILE, Mode.DATA, Mode.FILE_OR_DATA, Mode.HINT)
"""By TensorFlow's numbers."""

LIGHT = 4 << 20
"""Bytes of an element whose reply is made between two others, in a millisecond or so."""

TIMEOUT = 600.0
"""Seconds for which the dispatcher, or all workers, may be absent: clients wait, too."""

_NOTHING: Any = object()


class Replies:
    """The replies that *encode* makes of *elements*, each when it is asked for.

    So an element is acked when it is answered. One of more than *light* bytes is left by `at_hand`
    to `__next__`, which a thread calls.
    """

    def __init__(
        self, elements: DatasetIterator, encode: Callable[[Any], bytes], light: int = LIGHT
    ) -> None:
        self._elements, self._encode, self._light = elements, encode, light
        self._held = _NOTHING

    def __next__(self) -> bytes:
        """Return the next reply, and wait for it."""
        element, self._held = self._held, _NOTHING
        return self._encode(next(self._elements) if element is _NOTHING else element)

    def at_hand(self, default: None) -> bytes | None:
        """Return the next reply if that takes neither a wait nor long, else *default*."""
        if self._held is not _NOTHING:
            return default
        element = self._elements.at_hand(_NOTHING)
        if element is _NOTHING:
            return default
        if nbytes(element) > self._light:
            self._held = element
            return default
        return self._encode(element)

    def close(self) -> None:
        """End the reading."""
        self._elements.close()

    @property
    def round(self) -> int:
        """The round that comes next, of coordinated reads."""
        return self._elements.round


def opened(
    address: str, found: FoundTask, consumer: int | None, trainer: str, start: int | None = None
) -> Replies:
    """Begin to read what a task of TensorFlow's clients reads, at the dispatcher of *address*.

    A consumer of coordinated reads begins with round *start*; None is where the others are.

    Raises:
        PenstockError: when it cannot be read.
    """
    cache = CrossTrainerCache(trainer or "TensorFlow") if found.cached else None
    far = from_dataset_id(
        ShardingPolicy[MODES[found.sharding_policy].name],
        address,
        found.dataset_id,
        job_name=None if found.job_name is None else WholeName(found.job_name),
        consumer_index=consumer if found.num_consumers else None,
        num_consumers=found.num_consumers or None,
        cross_trainer_cache=cache,
        on_finished="ignore",
        start_round=start if found.num_consumers else None,
        timeout=TIMEOUT,
    )
    far.node.passes.resume(found.repetition - 1)  # type: ignore[attr-defined]  # it is far
    if found.snappy:  # which takes a while
        return Replies(iter(far), compressed_reply, light=-1)
    return Replies(iter(far), element_reply)
