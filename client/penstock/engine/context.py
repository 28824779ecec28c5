"""What a running operator may know of its surroundings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.engine import seeds
from penstock.engine.iterator import OpIterator, State
from penstock.errors import StateError
from penstock.numbers import Split

if TYPE_CHECKING:
    from penstock.graph import Node


class SplitReader:
    """Where sources draw from under dynamic sharding: a place in each stream's split log.

    *fetch(stream, position)* waits until the log of *stream* holds *position*, and gives what
    stands there. Sources that are read in lockstep (by `zip`) share a stream, each at a place of
    its own. An empty split ends a pass; the next pass goes on behind it.
    """

    def __init__(self, fetch: Callable[[int, int], Split]) -> None:
        self.fetch = fetch
        self._places: dict[str, int] = {}

    def place(self, source: str) -> int:
        """Return the position from which *source*, opened for a new pass, reads."""
        return self._places.get(source, 0)

    def leave(self, source: str, position: int) -> None:
        """Note that the pass of *source* ended with the empty split at *position*."""
        self._places[source] = position + 1


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of one operator in one run of a pipeline.

    *path* is the operator's place in the graph: "" is the outermost, and each step towards the
    sources adds ".0", ".1" and so on.
    """

    lineage: int
    """The seed of everything below; it depends on the job's seed, the task and the inner dataset."""
    turn: int = 0
    """Which pass of the enclosing `repeat`s this is; 0 outside of any and in the first."""
    path: str = ""
    splits: SplitReader | None = None
    streams: dict[str, int] = field(default_factory=dict)
    """Which split stream a source draws from, by the source's path."""
    shared: dict[str, object] = field(default_factory=dict)
    """What operators keep for the length of the run, by path: a memory cache outlives passes."""

    @classmethod
    def local(cls, seed: int, task: int = 0) -> Context:
        """Return the context of a run that reads every source whole."""
        return cls(seeds.derive(seed, "task", task))

    def open(
        self, node: Node, state: State = None, *, branch: int = 0, turn: int | None = None
    ) -> OpIterator:
        """Run *node*, this operator's input number *branch*, from *state* on.

        A *turn* makes it one of several passes over the same input (0 is the first).
        """
        path = f"{self.path}.{branch}"
        if turn is None:
            return open_node(node, replace(self, path=path), state)
        number = seeds.derive(self.turn, "turn", turn) if turn else self.turn
        return open_node(node, replace(self, path=path, turn=number), state)

    def inner(self, number: int) -> Context:
        """Return the context of the inner dataset made from input element *number*."""
        lineage = seeds.derive(self.lineage, self.path, self.turn, "inner", number)
        return Context(lineage, path=f"{self.path}/", turn=self.turn)

    def seed(self, explicit: int | None = None, *, every_turn: bool = True) -> int:
        """Return the operator's seed: from *explicit* if the user gave one, else from the job's.

        An explicit seed gives the same sequence in every task and in every new iterator. With
        *every_turn* each pass of a `repeat` around the operator has a seed of its own.
        """
        base = seeds.derive(self.lineage, self.path) if explicit is None else explicit
        return seeds.derive(base, "turn", self.turn) if every_turn and self.turn else base


def open_node(node: Node, context: Context, state: State = None) -> OpIterator:
    """Run *node* in *context* from *state* on; a state of another shape is a clear error."""
    try:
        return node.open(context, state)
    except (TypeError, ValueError, KeyError, IndexError) as exc:
        if state is None or isinstance(exc, StateError):
            raise
        raise StateError(
            f"the saved state does not fit {node.label} (at {context.path or 'the end'}): {exc}"
        ) from exc
