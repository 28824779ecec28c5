"""A session as an operator when none follows `distribute`: what it hands out is acked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from penstock.element import Element
from penstock.engine.iterator import Mark, OpIterator
from penstock.errors import StateError
from penstock.reader.session.payload import permitted
from penstock.reader.session.session import Session


class DirectSessionIterator(OpIterator):
    """The elements of one iteration that fall to this reader.

    What the training loop itself is given is taken element by element. What operators ask for is
    taken at once: nobody here knows what becomes of it (see `penstock.reader.delivery.iterator`).
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._over = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        elements = [] if self._over else self._session.pull(n)
        return elements or self._end()

    def hand(self, _n: int) -> tuple[list[Element], Iterator[Element]]:
        """See `OpIterator.hand`. A block is as long as it came."""
        elements, block = ([], None) if self._over else self._session.hand()
        if block is None:
            return self._end(), iter(())
        return elements, permitted(block.rest, self._session.core.member)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        return no_state

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._session.close()

    def _end(self) -> list[Element]:
        """Let go of everything: there is nothing left to wait for."""
        self._over = True
        self._session.close()
        return []


def no_state(_back: int = 0) -> NoReturn:
    """Refuse to say where a shared pass stands."""
    raise StateError(
        "an element that is a whole pass of another job, or a pipeline on a worker that reads one, "
        "has no state: put distribute(...) outside of interleave and flat_map, on the training side"
    )
