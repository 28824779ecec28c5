"""A pass that is read for TensorFlow's clients: one element after another, as bytes to send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

from penstock.errors import PenstockError, Unavailable
from penstock.protocol.tensorflow import END_OF_SEQUENCE, FoundTask
from penstock.protocol.types import Mode

AHEAD = 8
"""How many replies are made before they are asked for. Till then their elements are unacked."""

MODES = (Mode.OFF, Mode.DYNAMIC, Mode.FILE, Mode.DATA, Mode.FILE_OR_DATA, Mode.HINT)
"""By TensorFlow's numbers."""


class ReplySource(Protocol):
    """What is read: an iterator that can be closed."""

    def __next__(self) -> Any:
        """Return the next reply."""

    def close(self) -> None:
        """End it, from any thread."""

    @property
    def round(self) -> int:
        """The round that comes next, of coordinated reads."""
        ...


class PassReader:
    """Replies to requests for elements, in the order of requests. *opened* begins to read.

    A thread of its own waits for elements. A request that is cancelled meanwhile leaves what comes
    to the next one.
    """

    def __init__(self, opened: Callable[[], ReplySource], *, in_rounds: bool = False) -> None:
        self._opened, self._in_rounds = opened, in_rounds
        self.round = 0
        """Which round the newest reply is of; 0 unless it reads *in_rounds*."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-tensorflow")
        self._turn = asyncio.Lock()
        self._coming: asyncio.Future[bytes] | None = None
        self._elements: ReplySource | None = None
        self._over = self._closed = False
        self._failure: PenstockError | None = None

    async def next(self) -> bytes:
        """Return the next reply: an element, or the end of the pass.

        Raises:
            PenstockError: what happened behind the elements before; again with each call, unless
                it may be over with the next.
            Unavailable: after `close`.
        """
        async with self._turn:
            if self._closed:
                raise Unavailable(CLOSED)
            if self._over:
                return END_OF_SEQUENCE
            if self._failure is not None:
                raise self._failure
            if self._coming is None:
                loop = asyncio.get_running_loop()
                self._coming = loop.run_in_executor(self._thread, self._next)
            try:
                reply = await asyncio.shield(self._coming)
            except asyncio.CancelledError:
                raise
            except PenstockError as exc:
                self._coming = None
                if self._closed:
                    raise Unavailable(CLOSED) from exc
                self._failure = None if exc.retryable else exc
                raise
            self._coming, self._over = None, reply is END_OF_SEQUENCE
            return reply

    async def close(self) -> None:
        """Give back what was not asked for, and end; a request that waits gets an error."""
        self._closed = True
        elements = self._elements
        if elements is None:  # it may be about to be opened
            self._thread.submit(self._close)
        else:
            await asyncio.to_thread(self._close)
        self._thread.shutdown(wait=False)

    def _next(self) -> bytes:
        if self._elements is None:
            self._elements = self._opened()
        elements = self._elements
        try:
            reply: bytes = next(elements)
        except StopIteration:
            return END_OF_SEQUENCE
        if self._in_rounds:
            self.round = elements.round - 1
        return reply

    def _close(self) -> None:
        elements, self._elements = self._elements, None
        if elements is not None:
            with suppress(PenstockError):
                elements.close()


CLOSED = "this worker reads the pass for TensorFlow's clients no more"


def opened(
    address: str, found: FoundTask, consumer: int | None, trainer: str, start: int | None = None
) -> ReplySource:
    """Begin to read what a task of TensorFlow's clients reads, at the dispatcher of *address*.

    A consumer of coordinated reads begins with round *start*; None is where the others are.

    Raises:
        PenstockError: when it cannot be read.
    """
    # They load what only a process needs that reads.
    from penstock.reader.trainer import CrossTrainerCache  # noqa: PLC0415
    from penstock.service import ShardingPolicy, from_dataset_id  # noqa: PLC0415

    cache = CrossTrainerCache(trainer or "TensorFlow") if found.cached else None
    far = from_dataset_id(
        ShardingPolicy[MODES[found.sharding_policy].name],
        address,
        found.dataset_id,
        job_name=found.job_name,
        consumer_index=consumer if found.num_consumers else None,
        num_consumers=found.num_consumers or None,
        cross_trainer_cache=cache,
        on_finished="ignore",
        start_round=start if found.num_consumers else None,
        timeout=TIMEOUT,
    )
    far.node.passes.resume(found.repetition - 1)  # type: ignore[attr-defined]  # it is far
    replies = far.map(_compressed if found.snappy else _reply)
    if not found.num_consumers:  # in rounds others wait for each element
        replies = replies.prefetch(AHEAD)
    return iter(replies)


def _reply(*parts: Any) -> bytes:
    """Return the reply that carries an element: of a tuple `map` gives its parts."""
    from penstock.frames.tensors import element_reply  # noqa: PLC0415  # as above

    return element_reply(parts)


def _compressed(*parts: Any) -> bytes:
    from penstock.frames.tensors import compressed_reply  # noqa: PLC0415  # as above

    return compressed_reply(parts)


TIMEOUT = 600.0
"""Seconds for which the dispatcher, or all workers, may be absent: clients wait, too."""
