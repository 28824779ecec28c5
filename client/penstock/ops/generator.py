"""`from_generator`: the items of an iterable. State: ``[steps so far]``.

A generator cannot be moved to a position, so a restore runs it again up to there. The operators
after it do not run again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.errors import DatasetError, StateError
from penstock.executors.function import raise_interrupt, transform_error
from penstock.graph.node import Node, function
from penstock.normalise import normalise
from penstock.runtime.interrupts import interruptible

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Generator(Node):
    """The items of the iterable ``generator(*args)``."""

    op: ClassVar[str] = "from_generator"
    generator: Callable[..., Iterable[Any]] = function()
    args: Sequence[Any] = function(default=())

    def __post_init__(self) -> None:
        if not callable(self.generator):
            raise DatasetError(
                "from_generator: generator must be a callable that returns an iterable, not "
                f"{self.generator!r}; give the function itself, so that it can be run again"
            )
        if not isinstance(self.args, (tuple, list)):
            raise DatasetError(f"from_generator: args must be a tuple, not {self.args!r}")
        object.__setattr__(self, "args", tuple(self.args))

    def open(self, context: Context, state: State) -> OpIterator:  # noqa: ARG002
        """See `Node.open`."""
        (steps,) = state or (0,)
        return _GeneratorIterator(self, steps)


class _GeneratorIterator(OpIterator):
    def __init__(self, node: Generator, steps: int) -> None:
        self._node, self._steps = node, steps
        self._iterator: Iterator[Any] | None = None
        self._ended = False

    def block(self, n: int) -> list[Element]:  # noqa: ARG002
        """See `OpIterator.block`. One element: the generator may wait until it is used."""
        if self._ended:
            return []
        iterator = self._start() if self._iterator is None else self._iterator
        number = self._steps
        self._steps += 1
        try:
            return [interruptible(_next, iterator)]
        except StopIteration:
            self._steps, self._ended = number, True
            return []
        except BaseException as exc:
            raise transform_error(self._node.label, number, exc) from exc

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        steps = self._steps
        return lambda back: [steps - back]

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._ended = True
        iterator, self._iterator = self._iterator, None
        close = getattr(iterator, "close", None)
        if close is None or getattr(iterator, "gi_running", False):  # in another thread
            return
        try:
            close()
        except BaseException as exc:
            raise_interrupt(exc)
            log.warning("%s raised when it was closed", self._node.label, exc_info=True)

    def _start(self) -> Iterator[Any]:
        """Run the generator up to the position of the state."""
        label, behind = self._node.label, getattr(self._node.generator, "behind", None)
        try:
            if behind is not None:  # it passes over elements faster than by making them
                passed: Iterator[Any] = behind(self._steps)
                self._iterator = passed
                return passed
            iterator = iter(interruptible(self._node.generator, *self._node.args))
        except BaseException as exc:
            raise_interrupt(exc)
            self._ended = True
            raise transform_error(label, 0, exc) from exc
        for step in range(self._steps):
            try:
                interruptible(next, iterator)
            except StopIteration:
                self._ended = True
                raise StateError(
                    f"{label} gave {step} elements this time; the saved state stands behind "
                    f"{self._steps}"
                ) from None
            except BaseException as exc:  # noqa: BLE001  it was raised before the state was taken
                raise_interrupt(exc)
                log.debug("%s failed again at element %d", label, step)
        self._iterator = iterator
        return iterator


def _next(iterator: Iterator[Any]) -> Element:
    return normalise(next(iterator))
