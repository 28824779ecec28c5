"""`ignore_errors`: the elements of the input without those that fail.

State: ``[elements of the input so far, failed ones among them, the input's state]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, ChoosingIterator, Mark, OpIterator, State
from penstock.engine.rows import Block
from penstock.errors import StateError, TransformError
from penstock.graph.node import Node
from penstock.ops.internal.dead_letters import DeadLetters, ElementOrigin, folder_of
from penstock.options import check_count
from penstock.runtime.tracebacks import told


@dataclass(frozen=True, eq=False)
class IgnoreErrors(Node):
    """The elements of *upstream* without those that fail, which may be at most *max_errors*.

    With *log*, the name of a folder, a record of each failed element is written there.
    """

    op: ClassVar[str] = "ignore_errors"
    upstream: Node
    max_errors: int | None = None
    log: str | None = None

    def __post_init__(self) -> None:
        if self.max_errors is not None:
            most = check_count(self.op, "max_errors", self.max_errors, least=0)
            object.__setattr__(self, "max_errors", most)
            # Each task counts its own errors, so only here it matters where a stream begins.
            object.__setattr__(self, "per_task", True)
        if self.log is not None:
            object.__setattr__(self, "log", folder_of(self.op, self.log))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        letters = None
        if self.log is not None:
            stream = ElementOrigin(context.base_seed, context.path, context.pass_key)
            letters = DeadLetters(self.log, self.upstream.label, stream)
        return _IgnoreErrorsIterator(self, context, state, letters)


class _IgnoreErrorsIterator(ChoosingIterator):
    def __init__(
        self, node: IgnoreErrors, context: Context, state: State, letters: DeadLetters | None
    ) -> None:
        self._number: int
        self._errors: int
        self._number, self._errors, below = state or (0, 0, None)
        self._upstream, self._most = context.open(node.upstream, below), node.max_errors
        self._below = self._upstream.mark()
        """The position of the input."""
        self._left_out, self._letters = context.tallies, letters

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        self._write()
        while True:
            try:
                block = self._upstream.rows(n)
            except ELEMENT_ERRORS as exc:
                self._leave_out(exc)
                self._write()
            else:
                self._below = self._upstream.mark()
                self._number += len(block)
                return block

    def expect_batches(self, size: int) -> None:
        """See `OpIterator.expect_batches`."""
        self._upstream.expect_batches(size)

    def mark(self) -> Mark:
        """See `OpIterator.mark`. Elements that were left out before stay left out."""
        number, errors, below = self._number, self._errors, self._below
        return lambda back: [number - back, errors, below(back)]

    def _leave_out(self, error: Exception) -> None:
        """Skip an element that failed, if that is allowed; else raise its error."""
        before, self._below = self._below, self._upstream.mark()
        try:
            if not belongs_to_element(error, before, self._below):
                raise error
            number = self._number
            self._number, self._errors = number + 1, self._errors + 1
            if self._most is not None and self._errors > self._most:
                raise _one_too_many(number, self._errors, self._most, error) from error
            self._left_out.skip()
            if self._letters is not None:
                self._letters.add(number, error)
        finally:
            del error  # or the error would keep this frame, and with it the iterator, forever

    def _write(self) -> None:
        if self._letters is not None:
            self._letters.write()


def belongs_to_element(error: Exception, before: Mark, after: Mark) -> bool:
    """Return whether the input that raised *error* can continue after it, as its marks say."""
    return not (_is_of_job(error) or _same(before, after))


def _is_of_job(error: Exception) -> bool:
    """Return whether a pipeline on a worker failed, which ends a task and not one element."""
    return isinstance(error, TransformError) and error.worker is not None


def _same(before: Mark, after: Mark) -> bool:
    """Return whether the input has not moved; if so, its error is not that of an element.

    It may have no position, because jobs inside of jobs have no state.
    """
    try:
        return bool(before(0) == after(0))
    except StateError:
        return True


def _one_too_many(number: int, count: int, most: int, error: Exception) -> TransformError:
    trace = error.remote_traceback if isinstance(error, TransformError) else ""
    return TransformError(
        IgnoreErrors.op,
        number,
        f"this is error number {count}, and max_errors is {most}; it says: {error}",
        None,
        trace or told(error),
    )
