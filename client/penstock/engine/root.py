"""`DatasetIterator`: what `iter(dataset)` gives to a training loop."""

from __future__ import annotations

import asyncio
import hashlib
import operator
import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, cast

from penstock import graph
from penstock.element import Element, NestedDataset, leaves
from penstock.engine import seeds
from penstock.engine.context import Context, open_node
from penstock.engine.iterator import OpIterator, State
from penstock.errors import Closed, ElementError, StateError

MAX_BLOCK = 256
BLOCK_SECONDS = 0.002
"""About how long making one block may take: slow pipelines work element by element."""


class DatasetIterator(Iterator[Element]):
    """The elements of a dataset, from a saved state on; also for ``async for`` and ``with``.

    Not for several threads at once, but `close` may be called from any.
    """

    def __init__(self, node: graph.Node, state: State = None) -> None:
        self._node = node
        self._run: OpIterator | None = None
        self._closed = False
        self._start(state)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Element:
        for element in self._active:  # a list's own iterator: the fast path has no Python in it
            return element
        return self._next_block()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Element:
        for element in self._active:
            return element
        end = object()
        element = await asyncio.to_thread(next, self, end)
        if element is end:
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
        # An iterator whose __init__ failed has nothing to close.
        if getattr(self, "_run", None) is not None:
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
            StateError: when *state* was taken of another pipeline, or is no state at all.
        """
        self._check_open()
        self._stop()
        self._start(state)

    def close(self) -> None:
        """Let go of everything the pipeline holds. Idempotent."""
        self._closed = True
        self._stop()

    def _start(self, state: State) -> None:
        self._shape = shape_of(self._node)
        self._seed, at = (seeds.fresh(), None) if state is None else self._checked(state)
        self._active: Iterator[Element] = iter(())
        self._n = 1
        run = open_node(self._node, Context.local(self._seed), at)
        self._run, self._mark = run, run.mark()

    def _stop(self) -> None:
        run, self._run = self._run, None
        deque(self._active, maxlen=0)
        if run is not None:
            run.close()

    def _next_block(self) -> Element:
        self._check_open()
        run = cast("OpIterator", self._run)
        began = time.perf_counter()
        block = run.block(self._n)
        if not block:
            self._mark = run.mark()
            raise StopIteration
        self._mark = run.mark()
        self._adapt((time.perf_counter() - began) / len(block))
        if isinstance(block[0], (tuple, dict, NestedDataset)):
            _refuse_datasets(block[0])
        self._active = iter(block)
        return next(self._active)

    def _adapt(self, seconds: float) -> None:
        affordable = int(BLOCK_SECONDS / seconds) if seconds > 0 else MAX_BLOCK
        self._n = max(1, min(2 * self._n, affordable, MAX_BLOCK))

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this iterator was closed; make another one with iter(dataset)")

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


def _refuse_datasets(element: Element) -> None:
    if any(isinstance(leaf, NestedDataset) for leaf in leaves(element)):
        raise ElementError(
            "a dataset inside an element cannot be handed to a training loop: flatten it first, "
            "as in window(size).flat_map(lambda w: w.batch(size))"
        )
