"""`FrameworkLoader`: a dataset read pass after pass, as the loaders of all frameworks do."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from penstock.dataset.iterator import DatasetIterator
from penstock.element import Element, leaves, shown
from penstock.engine.iterator import State
from penstock.errors import Closed, DatasetError, StateError
from penstock.graph.node import INFINITE, UNKNOWN, Node
from penstock.graph.traversal import DatasetBase, walk
from penstock.loading.placed import Placed
from penstock.ops.batch import Batch
from penstock.ops.padded_batch import PaddedBatch
from penstock.protocol.malformed import glimpse
from penstock.reader.external_state import check_external_state
from penstock.reader.node import Distribute
from penstock.runtime.interrupts import uninterrupted

_END: Any = object()


class FrameworkLoader(ABC):
    """A dataset's elements as a framework's own arrays; each ``iter()`` is a new pass.

    A thread places up to *prefetch* elements ahead of the loop. Elements that are only placed do
    not count as read: a saved state, and a job's acks, count elements that the loop got.
    """

    framework: ClassVar[str]
    """The loader's public name, for messages."""

    def __init__(self, dataset: Any, prefetch: int) -> None:
        if not isinstance(dataset, DatasetBase):
            raise DatasetError(
                f"{self.framework}: give a penstock.Dataset, not {shown(dataset)}; "
                "Dataset.from_torch, from_tf and from_huggingface make one of other datasets"
            )
        self._node: Node = Placed(dataset.node, self._place, prefetch)
        self._from = LoaderState()
        """Where the next pass begins."""
        self._pass: LoaderPass | None = None
        """The pass that is read, or the last one."""
        self.missed = 0
        """How many elements this process got but did not hand out, because another process had
        none left. With them, this process would have made more steps than the others. Each element
        of a batch counts."""
        self._process = os.getpid()

    @abstractmethod
    def _place(self, element: Element) -> Any:
        """Return *element* as the framework's arrays. Runs in the thread that reads ahead."""

    def _hand_out(self, placed: Any) -> Any:
        """Return the element that the loop gets for *placed*. Runs in the loop's thread."""
        return placed

    def _goes_on(self, *, here: bool) -> bool:
        """Return whether the pass continues; *here* says whether this process has an element."""
        return here

    def _size_of(self, placed: Any) -> int:
        """Return how many elements *placed* stands for: for a batch, its length."""
        first = next(iter(leaves(placed)), None) if ends_in_batches(self._node) else None
        shape = getattr(first, "shape", ())
        return int(shape[0]) if shape else 1

    def _leave(self, before: LoaderPass) -> None:
        """End the pass *before*, because another one begins."""
        before.close()

    @property
    def cardinality(self) -> int:
        """How many elements a whole pass has, or `INFINITE`, or `UNKNOWN`."""
        return self._node.cardinality

    def __iter__(self) -> LoaderPass:
        self.check_process()
        if self._pass is not None:
            self._from = self._pass.next_start(self._from)
            self._leave(self._pass)
        self._pass = LoaderPass(self)
        return self._pass

    def __len__(self) -> int:
        size = self._node.cardinality
        if size in (INFINITE, UNKNOWN):
            word = "infinite" if size == INFINITE else "unknown"
            raise TypeError(f"the length of this loader is {word}; see Dataset.cardinality()")
        return size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what the pass holds: threads, connections, elements. Idempotent."""
        if self._pass is not None:
            self._pass.close()

    @property
    def epoch(self) -> int:
        """The number of the pass that is read or comes next, from 0; saved with the state."""
        return self._state().epoch

    @property
    def steps(self) -> int:
        """How many elements of the pass the loop got, including those before a restore."""
        return self._state().steps

    @property
    def iterator(self) -> DatasetIterator | None:
        """The iterator of the current pass, which has ``round``, ``stats`` and `explain`.

        None before the first element was asked for. Do not take elements from it: the loader does.
        """
        return None if self._pass is None else self._pass.iterator

    def state_dict(self) -> dict[str, Any]:
        """Return the position as plain JSON; `torchdata`'s loaders have the same method.

        It counts elements that the loop got, not those placed ahead. With `distribute` it is the
        state of the whole job: all readers call this at the same step, and all get the same state.

        Raises:
            SaveFailed: the same for all readers of a job, naming those that are missing.
            Closed: when the pass was closed before its end.
        """
        return self._state(save=True).plain()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next ``iter()`` continue from a state.

        If the state is of a pass that was over, the next pass begins. If a pass is being read, it
        is closed.

        Args:
            state: the result of `state_dict`, for a dataset that the same code built. *prefetch*
                and the numbers of readers and workers may differ.

        Raises:
            StateError: when *state* is no state of a loader. Whether it fits this dataset is
                checked when the first element is asked for.
        """
        loaded = LoaderState.of(state)
        self.close()
        self._pass, self._from = None, loaded

    def check_process(self) -> None:
        """Check that this is the process in which the loader was made.

        Raises:
            DatasetError: when it was made before a fork.
        """
        if os.getpid() != self._process:
            raise DatasetError(
                f"{self.framework}: this loader was made in process {self._process} and is used in "
                f"process {os.getpid()}: a forked copy would read the same elements again. Make "
                "the loader in the process that trains, and use num_workers=0: the workers of "
                "Penstock are what makes elements in parallel"
            )

    def _state(self, *, save: bool = False) -> LoaderState:
        return self._from if self._pass is None else self._pass.state(self._from, save=save)


class LoaderPass(Iterator[Any]):
    """One pass over a loader's dataset. Nothing is opened before the first element is asked for."""

    def __init__(self, loader: FrameworkLoader) -> None:
        self._loader = loader
        self._elements: DatasetIterator | None = None
        self._epoch = self._steps = 0
        self._ended = False
        self._last: State = None
        """The position at which the pass ended."""
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return uninterrupted(self._next)

    def _next(self) -> Any:
        loader = self._loader
        loader.check_process()
        if self._ended:
            raise StopIteration
        elements = self._opened()
        placed = next(elements, _END)
        if not loader._goes_on(here=placed is not _END):  # noqa: SLF001
            if placed is not _END:
                loader.missed += loader._size_of(placed)  # noqa: SLF001
            self._end(elements)
            raise StopIteration
        self._steps += 1
        return loader._hand_out(placed)  # noqa: SLF001

    @property
    def iterator(self) -> DatasetIterator | None:
        """See `FrameworkLoader.iterator`."""
        return self._elements

    def close(self) -> None:
        """Release what the pass holds. Idempotent."""
        self._closed = True
        if self._elements is not None:
            self._elements.close()

    def state(self, before: LoaderState, *, save: bool) -> LoaderState:
        """Return the state of the pass, which began at *before*; with *save*, with its position.

        Raises:
            Closed: when *save* is set and the pass was closed before its end.
        """
        if not (save or self._elements):
            return before
        position = self._last
        if save and not self._ended:
            position = self._opened().state()
        return LoaderState(self._epoch, self._steps, self._ended, position)

    def next_start(self, before: LoaderState) -> LoaderState:
        """Return the state at which the next pass begins; this pass began at *before*."""
        return before if self._elements is None else LoaderState(self._epoch + 1)

    def _end(self, elements: DatasetIterator) -> None:
        """Keep the position at which the pass ended; for a job, the one of all readers."""
        if elements.reads_job:
            self._loader.missed += sum(map(self._loader._size_of, elements))  # noqa: SLF001
        self._last = elements.state()
        self._ended = True
        elements.close()

    def _opened(self) -> DatasetIterator:
        if self._closed:
            raise Closed("this pass of the loader was closed; begin another one with iter(loader)")
        if self._elements is None:
            loader, start = self._loader, self._loader._from  # noqa: SLF001
            node = loader._node  # noqa: SLF001
            check_external_state(node)
            elements = DatasetIterator(node, start.position)
            self._epoch, self._steps = start.epoch, start.steps
            if start.finished:
                # Opening the finished pass tells a job which pass comes next.
                next(elements, None)
                elements.close()
                elements, self._epoch, self._steps = DatasetIterator(node), start.epoch + 1, 0
            self._elements = elements
        return self._elements


def ends_in_batches(node: Node) -> bool:
    """Return whether the elements of *node* are batches, as far as the pipeline says so.

    Operators that make one element from one element, such as `map`, count as keeping batches.
    """
    while not isinstance(node, (Batch, PaddedBatch)):
        if isinstance(node, Distribute):
            node = node.remote.node
        elif node.one_to_one and len(node.inputs) == 1:
            (node,) = node.inputs
        else:
            return False
    return True


def jobs(node: Node) -> list[Distribute]:
    """Return the `distribute` stages of the pipeline that ends in *node*."""
    return [stage for _, stage in walk(node) if isinstance(stage, Distribute)]


VERSION = 1


@dataclass(frozen=True, slots=True)
class LoaderState:
    """The position of a loader: after *steps* elements of pass number *epoch*, counted from 0.

    Attributes:
        epoch: the number of the pass.
        steps: how many elements of it the loop got.
        finished: whether the pass is over; if so, the next pass follows.
        position: the state from which the dataset's iterator continues; None is the beginning.
    """

    epoch: int = 0
    steps: int = 0
    finished: bool = False
    position: State = None

    def plain(self) -> dict[str, Any]:
        """Return this state as plain JSON."""
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "steps": self.steps,
            "finished": self.finished,
            "input": self.position,
        }

    @classmethod
    def of(cls, state: Any) -> LoaderState:
        """Read what `plain` wrote.

        Raises:
            StateError: when *state* is something else.
        """
        match state:
            case {"version": int(version)} if version != VERSION:
                raise StateError(
                    f"this state of a loader has version {glimpse(version)}; this Penstock reads "
                    f"version {VERSION}"
                )
            case {
                "version": int(),
                "epoch": int(epoch),
                "steps": int(steps),
                "finished": bool(finished),
                "input": position,
            } if epoch >= 0 and steps >= 0:
                return cls(epoch, steps, finished, position)
        raise StateError(
            f"not a state of a loader: {glimpse(state)}; give load_state_dict what state_dict() "
            "returned"
        )
