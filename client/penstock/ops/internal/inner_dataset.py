"""A dataset inside `interleave` or `flat_map`: how it is made, and its position."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

from penstock.element import Element, NestedDataset
from penstock.engine.context import Context, open_node
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import DatasetError, ElementError, TransformError
from penstock.executors.function import UserFunction
from penstock.graph.node import Node


class OpenInner:
    """Makes and opens inner datasets with the user's function."""

    def __init__(self, call: UserFunction, context: Context, label: str) -> None:
        self._call, self._context, self._label = call, context, label
        self._any_context = context.inner(0)

    def __call__(self, element: Element, number: int, state: State) -> OpIterator:
        """Run the dataset made from *element*, which has this *number*, from *state* on."""
        made = self._call(element, number)
        if not isinstance(made, NestedDataset):
            error = DatasetError(
                f"the function of {self._label} must return a Dataset, not {made!r:.60} "
                f"({type(made).__name__}); use map for a function that returns values"
            )
            self._call.fail(error, number, element)
        node: Node = cast("Any", made).node
        # Making a context takes longer than opening a small window.
        context = self._any_context if node.context_free else self._context.inner(number)
        return open_node(node, context, state)

    def located(self, error: Exception, number: int) -> Exception:
        """Return *error*, with a note that it is of the dataset made from element *number*."""
        where = f"in the dataset that {self._label} made of its element {number}"
        if isinstance(error, TransformError):
            return error.but(detail=f"{error.detail}; {where}")
        if type(error) is ElementError:
            located = ElementError(f"{error}; {where}")
            located.__cause__ = error.__cause__
            return located
        return error


@dataclass(frozen=True, slots=True)
class OuterPosition:
    """A position in the outer dataset: just before the last *back* elements of a block."""

    mark: Mark
    back: int

    def state(self) -> State:
        """Return the outer dataset's state there."""
        return self.mark(self.back)


@dataclass(frozen=True, slots=True)
class Pulled:
    """The result of one read of a dataset: a block (an empty one at the end), and its mark."""

    block: list[Element]
    mark: Mark


@dataclass(frozen=True, slots=True)
class InnerError:
    """An error from a read; the dataset continues after it if it could be *opened*."""

    error: Exception
    mark: Mark
    opened: bool


class Inner:
    """The dataset made from one outer element, and the block of it that is being used."""

    def __init__(
        self, open_inner: OpenInner, element: Element, number: int, place: OuterPosition
    ) -> None:
        self._open, self._element = open_inner, element
        self.number = number
        self.position = place
        """Just before the outer element."""
        self._run: OpIterator | None = None
        self._closed = False
        self._from: State = None
        self._mark: Mark = lambda _: None
        self.block: list[Element] = []
        """The elements of its last block that are not used yet."""
        self.error: InnerError | None = None
        """The error to raise after the block."""
        self.ended = False
        """Whether the dataset ends after the block."""
        self.coming: Future[Pulled | InnerError] | None = None
        """The next block, if a thread is reading it."""

    @property
    def dry(self) -> bool:
        """Whether the next element, error or end must still be read."""
        return not self.block and self.error is None and not self.ended

    @property
    def going(self) -> bool:
        """Whether there is more to read after the block, or after the error."""
        return not self.ended and (self.error is None or self.error.opened)

    def begin_at(self, state: State) -> None:
        """Begin at a saved *state*."""
        self._from = state
        self._mark = lambda _: state

    def pull(self, n: int) -> Pulled | InnerError:
        """Read up to *n* elements, without any other change. Any thread."""
        try:
            run = self._opened()
        except ELEMENT_ERRORS as exc:
            return InnerError(exc, self._mark, opened=False)
        try:
            block = run.block(n)
        except ELEMENT_ERRORS as exc:
            return InnerError(self._open.located(exc, self.number), run.mark(), opened=True)
        finally:
            if self._closed:  # by another thread, during the read
                run.close()
        return Pulled(block, run.mark())

    def take(self, n: int) -> list[Element]:
        """Use up to *n* elements of the block."""
        taken = self.block[:n]
        del self.block[:n]
        return taken

    def install(self, pulled: Pulled | InnerError) -> None:
        """Continue with the result of a pull; the block before it is used up."""
        if isinstance(pulled, InnerError):
            self.error = pulled
            return
        self.block, self._mark = pulled.block, pulled.mark
        self.ended = not pulled.block

    def fail(self, failed: InnerError) -> None:
        """Move the position after the error that is due."""
        self.error, self._mark = None, failed.mark

    def skip(self, n: int) -> int:
        """Skip up to *n* elements; return how many there were. Fewer means the end."""
        held = len(self.take(n))
        while held < n and not self.ended:
            self.error = None
            skipped = self._opened().skip(n - held)
            self._mark = self._opened().mark()
            self.ended = skipped < n - held
            held += skipped
        return held

    def mark(self) -> Mark:
        """Capture the position; *back* counts elements returned of the block."""
        mark, left = self._mark, len(self.block)
        return lambda back: mark(left + back)

    def close(self) -> None:
        """Close the dataset. If a thread is inside it, that thread closes it again afterwards."""
        self._closed = True
        if self._run is not None:
            self._run.close()

    def _opened(self) -> OpIterator:
        if self._run is None:
            self._run = self._open(self._element, self.number, self._from)
            self._element = None
        return self._run
