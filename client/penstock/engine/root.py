"""`DatasetIterator`: what `iter(dataset)` gives to a training loop."""

from __future__ import annotations

import asyncio
import hashlib
import operator
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from penstock import graph
from penstock.element import Element, NestedDataset, leaves
from penstock.engine import seeds
from penstock.engine.context import Context, open_node
from penstock.engine.iterator import OpIterator, State
from penstock.errors import Closed, ElementError, NotAvailableYet, StateError

MAX_BLOCK = 256
BLOCK_SECONDS = 0.002
"""About how long making one block may take: slow pipelines work element by element."""

_END: Any = object()


class DatasetIterator(Iterator[Element]):
    """The elements of a dataset, from a saved state on; also for ``async for`` and ``with``.

    After an error the next element is the one behind it. Not for several threads at once, but
    `close` may be called from any.
    """

    def __init__(self, node: graph.Node, state: State = None) -> None:
        self._node = node
        self._shape = shape_of(node)
        self._active: Iterator[Element] = iter(())
        self._awaited: asyncio.Future[Element] | None = None
        self._run: OpIterator | None = None
        self._closed = False
        self._begin(state)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Element:
        for element in self._active:  # a list's own iterator: the fast path has no Python in it
            return element
        return self._next_block()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Element:
        if self._awaited is None:
            for element in self._active:
                return element
            self._awaited = asyncio.ensure_future(asyncio.to_thread(next, self, _END))
        awaited = self._awaited
        try:
            element = await asyncio.shield(awaited)
        finally:
            # Whoever waits may be cancelled; the element on its way is for the next one who asks.
            self._awaited = None if awaited.done() else awaited
        if element is _END:
            raise StopAsyncIteration
        return element

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # An iterator whose __init__ failed has nothing to close; at the end of the process its
        # threads have stopped where they were, perhaps with a lock in hand.
        if getattr(self, "_run", None) is not None and not sys.is_finalizing():
            self.close()

    def state(self) -> State:
        """Return the place behind the element last returned, as plain JSON.

        A state fits any dataset built by the same code, in any process; see `Dataset.iterator`.
        """
        self._check_open()
        back = operator.length_hint(self._active)
        return {"v": 1, "pipeline": self._shape, "seed": self._seed, "at": self._mark(back)}

    def restore(self, state: State) -> None:
        """Go on as if *state* had just been taken.

        Raises:
            StateError: when *state* was taken of another pipeline, or is no state at all. Then
                this iterator stays where it is.
        """
        self._check_open()
        self._begin(state)

    def close(self) -> None:
        """Let go of everything the pipeline holds. Idempotent."""
        self._closed = True
        run, self._run = self._run, None
        if run is not None:
            run.close()
        self._active = iter(())

    def _begin(self, state: State) -> None:
        seed, at = (seeds.fresh(), None) if state is None else self._checked(state)
        self._open(seed, at)

    def _open(self, seed: int, at: State) -> None:
        before = self._run
        run = open_node(self._node, Context.local(seed, outlasting=True), at)
        self._run, self._mark, self._seed = run, run.mark(), seed
        self._active = iter(())
        self._n = 1
        if before is not None:
            before.close()

    def _next_block(self) -> Element:
        run = self._check_open()
        began = time.perf_counter()
        try:
            block, active = run.hand(self._n)
        except Exception:
            self._check_open()
            self._mark = run.mark()
            raise
        except BaseException:
            # Ctrl-C struck somewhere inside, and nobody knows where: go back to the last place.
            with suppress(NotAvailableYet):  # a job that is shared with others cannot go back
                self._open(self._seed, self._mark(0))
            raise
        self._mark = run.mark()
        self._active = active
        if self._closed:  # meanwhile, by another thread
            self.close()
            self._check_open()
        if not block:
            raise StopIteration
        self._adapt((time.perf_counter() - began) / len(block))
        if isinstance(block[0], (tuple, dict, NestedDataset)) and _has_dataset(block[0]):
            self._active = iter(())
            raise ElementError(
                "a dataset inside an element cannot be handed to a training loop: flatten it "
                "first, as in window(size).flat_map(lambda w: w.batch(size))"
            )
        return block[0]

    def _adapt(self, seconds: float) -> None:
        affordable = int(BLOCK_SECONDS / seconds) if seconds > 0 else MAX_BLOCK
        self._n = max(1, min(2 * self._n, affordable, MAX_BLOCK))

    def _check_open(self) -> OpIterator:
        if self._closed or self._run is None:
            raise Closed("this iterator was closed; make another one with iter(dataset)")
        return self._run

    def _checked(self, state: State) -> tuple[int, State]:
        try:
            version, shape, seed, at = (state[key] for key in ("v", "pipeline", "seed", "at"))
        except (TypeError, KeyError, IndexError) as exc:
            raise StateError(f"not a state of an iterator: {str(state)[:80]!r}") from exc
        if version != 1:
            raise StateError(f"this state has version {version!r}; this Penstock reads version 1")
        if shape != self._shape:
            raise StateError(
                "the state was taken of another pipeline: it has the operators "
                f"{shape!r}, this dataset has {self._shape!r}"
            )
        return seed, at


def shape_of(node: graph.Node) -> str:
    """Return the operators of the graph of *node*, shortened; equal for the same code.

    Parameters and functions are left out: a state may be restored after a fix in a function.
    """
    names = [f"{path.count('.')}{stage.op}" for path, stage in graph.walk(node)]
    if len(names) <= 8:
        return " ".join(names)
    digest = hashlib.blake2b(" ".join(names).encode(), digest_size=4).hexdigest()
    return f"{names[0]} and {len(names) - 1} more, {digest}"


def _has_dataset(element: Element) -> bool:
    return any(isinstance(leaf, NestedDataset) for leaf in leaves(element))
