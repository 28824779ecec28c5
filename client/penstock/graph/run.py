"""One run of a pipeline in a training loop: the interface, and the local run."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from penstock.autotune.tuning import Tuning
from penstock.element import Element
from penstock.engine import seeds
from penstock.engine.context import Context, open_node
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.engine.loop_time import LoopClock
from penstock.engine.op_times import OpTimes, longest_call
from penstock.engine.rows import Block
from penstock.engine.tallies import Tallies
from penstock.errors import DatasetError, PenstockError, StateError
from penstock.graph.node import Node
from penstock.graph.traversal import options_of
from penstock.options import check_seed
from penstock.protocol.loop_time import LinkTraffic, PassRead
from penstock.protocol.malformed import MALFORMED, glimpse
from penstock.runtime.interrupts import is_interrupt

B = TypeVar("B", bound=Block)

_UNFIT: tuple[type[Exception], ...] = (*MALFORMED, StopIteration)


class LoopBlock(NamedTuple):
    """A block of *size* elements: the loop gets the first *element* now, the *rest* by itself."""

    element: Element
    rest: Iterator[Element]
    size: int


END: Final = LoopBlock(None, iter(()), 0)


def open_root(node: Node, context: Context, state: State = None) -> OpIterator:
    """Run the pipeline that ends in *node* from *state* on, as its options say.

    Raises:
        StateError: when the state does not fit.
    """
    tuning = Tuning.of(options_of(node), context.share, processes=context.processes)
    return open_node(node, replace(context, tuning=tuning), state)


def uncoordinated(what: str, found: int = 0) -> DatasetError:
    """Return the error of using *what* with *found* sources in rounds instead of exactly one."""
    return DatasetError(
        f"{what} is of coordinated reads: give distribute consumer_index and num_consumers, "
        "without ordered=True"
        if not found
        else f"{what} is of one distribute with num_consumers; this pipeline has {found}"
    )


@dataclass(frozen=True, slots=True)
class SaveWanted:
    """How to save the state of a job.

    All its readers give the same *label*, and have *timeout* seconds to do so. With
    *without_missing*, the state is saved without the readers that do not.
    """

    label: str = ""
    timeout: float | None = None
    without_missing: bool = False


class PipelineRun(ABC):
    """A pipeline at work for a training loop.

    One thread at a time calls `advance`. Meanwhile, any thread may call `state` and `close`, or
    take elements of a block: taking one is atomic.
    """

    far: ClassVar[bool] = False
    """Whether other processes make the elements; if so, closing the run leaves their job."""

    def __init__(self) -> None:
        self.times = OpTimes()
        """How long its operators work in this process."""
        self.tallies = Tallies()
        """The sums that its operators in this process count."""

    def measured_by(self, loop: LoopClock) -> None:  # noqa: B027  most tell nobody
        """Use *loop* to report how long the training loop waits, if the run reports that."""

    @abstractmethod
    def start(self, before: PipelineRun | None = None) -> None:
        """Open the pipeline; the state that it begins with was already checked.

        It replaces the run *before*. If it succeeds, that run is closed; else that run continues.
        """

    @abstractmethod
    def advance(self, n: int) -> LoopBlock:
        """Return the next block, of at most *n* elements; an empty one is the end.

        The rest of the previous block is used up, or may not be handed out for now.
        """

    def block(self, n: int) -> Block:
        """Return the next block, of at most *n* elements, for loops that take all of it at once.

        An empty one is the end. Elements may be rows.
        """
        first = self.advance(n)
        return [first.element, *first.rest] if first.size else []

    @abstractmethod
    def state(self, wanted: SaveWanted) -> State:
        """Return the position after the elements that the loop got."""

    @property
    def ready(self) -> bool:
        """Whether `advance` neither waits nor takes long, nor calls functions of users."""
        return False

    @property
    def waits(self) -> bool:
        """Whether `advance` would wait for other processes, as far as is known without waiting."""
        return False

    @property
    def awaited(self) -> str:
        """The reason why it waits for other processes, in words; empty if it does not wait."""
        return ""

    def working_in(self) -> str:
        """Return the operator of this process that is in the longest call, in words, if any is."""
        found = longest_call(self.times.now())
        if found is None:
            return ""
        return f"{found.label} in the training process, in a call for {found.call:.1f} s"

    @property
    def round(self) -> int:
        """The round of coordinated reads that comes next; see `DatasetIterator.round`."""
        raise uncoordinated("round")

    @property
    def padding(self) -> bool:
        """Whether the newest element is padding; see `DatasetIterator.padding`."""
        raise uncoordinated("padding")

    @property
    def skipped(self) -> int:
        """How many elements this reader left out."""
        return 0

    @property
    def passes_read(self) -> tuple[PassRead, ...]:
        """The passes of jobs that it reads."""
        return ()

    @property
    def transport(self) -> Mapping[str, str]:
        """The name of the transport by which each worker is read."""
        return {}

    @property
    def cuts(self) -> tuple[str, ...]:
        """What autocache chose and why, as lines of text; empty without that option."""
        return ()

    @property
    def links(self) -> tuple[LinkTraffic, ...]:
        """The traffic from each worker."""
        return ()

    def skip_to(self, number: int, /) -> None:  # noqa: ARG002
        """Continue with round *number* of coordinated reads."""
        raise uncoordinated("skip_to")

    @abstractmethod
    def close(self) -> None:
        """Close everything. Idempotent; any thread."""


class LocalRun(PipelineRun):
    """A pipeline that runs entirely in this process."""

    reads_cuts: ClassVar[bool] = False
    """Whether it reads states that were taken with autocache."""

    def __init__(self, node: Node, shape: str, state: State, seed: int | None = None) -> None:
        super().__init__()
        self._shape = shape
        self._graph = node
        """What runs: it has the elements of *node*."""
        given = given_seed(node, seed)
        self._torn = False
        """Whether the operators must be opened again before they are asked for more."""
        self._at: State
        if state is None:
            self._pass, self._at = next_seed(node, given), None
        else:
            self._pass, self._at = self._checked(state)
            resume_passes(node, given, self._pass.number)

    def start(self, before: PipelineRun | None = None) -> None:  # noqa: ARG002
        """See `PipelineRun.start`."""
        with self._fitting():
            self._run = self._opened(self._at)
            self._place: tuple[Mark, Iterator[Element]] = self._run.mark(), iter(())

    def advance(self, n: int) -> LoopBlock:
        """See `PipelineRun.advance`."""
        _, rest = self._place
        for element in rest:  # the loop could not be given the element before it
            return LoopBlock(element, rest, operator.length_hint(rest) + 1)
        block = self._read(lambda run: run.block(n))
        rest = iter(block)
        element = next(rest, None)  # before the position is set: a state counts it as given
        self._place = self._run.mark(), rest
        return LoopBlock(element, rest, len(block)) if block else END

    def block(self, n: int) -> Block:
        """See `PipelineRun.block`."""
        _, rest = self._place
        if left := [*rest]:
            return left
        block = self._read(lambda run: run.rows(n))
        self._place = self._run.mark(), iter(())
        return block

    def _read(self, read: Callable[[OpIterator], B]) -> B:
        if self._at is None:
            return self._read_next(read)
        with self._fitting():
            return self._read_next(read)

    def _read_next(self, read: Callable[[OpIterator], B]) -> B:
        mark, _ = self._place
        if self._torn:
            self._open_again(mark(0))
        run = self._run
        try:
            return read(run)
        except PenstockError as exc:
            if is_interrupt(exc):
                self._tear()
            else:  # an operator's own error: iteration continues after it
                self._place = run.mark(), iter(())
            raise
        except BaseException:
            self._tear()
            raise

    def _tear(self) -> None:
        """Record that operators stopped halfway, as by Ctrl-C; they reopen at the position."""
        self._torn = True
        self._run.close()

    def _open_again(self, at: State) -> None:
        self._run = self._opened(at)
        self._place, self._torn = (self._run.mark(), iter(())), False

    def state(self, wanted: SaveWanted) -> State:  # noqa: ARG002
        """See `PipelineRun.state`. The state is in this process, so nothing waits."""
        mark, rest = self._place  # read once, because another thread may be replacing it
        with self._fitting():
            at = mark(operator.length_hint(rest))
        seed, number = self._pass
        numbered = {} if number is None else {"pass": number}
        return {"v": 1, "pipeline": self._shape, "seed": seed, **numbered, "at": at}

    def close(self) -> None:
        """See `PipelineRun.close`."""
        self._run.close()

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Turn errors that no user's function can have raised into a `StateError`.

        Operators do not check their part of a state; some use it when first asked for elements.

        Raises:
            StateError: when the state is not one of this pipeline.
        """
        try:
            yield
        except PenstockError:
            raise
        except _UNFIT as exc:
            if self._at is None or is_interrupt(exc):
                raise
            raise StateError(
                f"the state {glimpse(self._at)} does not fit this pipeline "
                f"({type(exc).__name__}: {glimpse(str(exc))}): it was changed, or the operators "
                "have other parameters now"
            ) from exc

    def _opened(self, at: State) -> OpIterator:
        context = Context.local(self._pass.seed, persistent=True)
        context = replace(context, times=self.times, tallies=self.tallies)
        return open_root(self._graph, context, at)

    def _checked(self, state: State) -> tuple[PassSeed, State]:
        if isinstance(state, dict) and "jobs" in state:
            raise StateError(
                "this is the state of a job, saved behind distribute(...); this dataset has no "
                "distribute(...) and runs here"
            )
        try:
            version, shape, seed, at = (state[key] for key in ("v", "pipeline", "seed", "at"))
        except (TypeError, KeyError, IndexError) as exc:
            raise StateError(f"not a state of an iterator: {glimpse(state)}") from exc
        if version != 1:
            raise StateError(
                f"this state has version {glimpse(version)}; this Penstock reads version 1"
            )
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise StateError(f"not a state of an iterator: its seed is {glimpse(seed)}")
        if "cut" in state and not self.reads_cuts:
            raise StateError(
                "the state was taken with Options(autocache=...), and this dataset has no path for "
                "it: give it the same AutocacheOptions(path=...)"
            )
        number = state.get("pass")
        if number is not None and (not isinstance(number, int) or number < 1):
            raise StateError(f"not a state of an iterator: its pass is {glimpse(number)}")
        if shape != self._shape:
            raise StateError(
                "the state was taken of another pipeline: it has the operators "
                f"{glimpse(shape)}, this dataset has {self._shape!r}"
            )
        return PassSeed(seed, number), at


_numbers: WeakKeyDictionary[Node, dict[int, Iterator[int]]] = WeakKeyDictionary()
"""The numbers of the next passes over a dataset, by the seed that it was given."""


class PassSeed(NamedTuple):
    """The seed of a pass; its *number* among those of one seed, or None without a given seed."""

    seed: int
    number: int | None = None


def given_seed(node: Node, explicit: Any = None) -> int | None:
    """Return the seed of a run of *node*: the *explicit* one, else that of its options, or None.

    Raises:
        DatasetError: when *explicit* is no seed.
    """
    if explicit is None:
        return options_of(node).seed
    return check_seed("iterator", explicit)


def seed_of_pass(given: int, number: int) -> int:
    """Return the seed of pass *number* under the seed that was *given*."""
    return seeds.derive(given, "pass", number)


def next_seed(node: Node, given: int | None) -> PassSeed:
    """Return the seed of the next pass over *node*; without a *given* one it is a new one."""
    if given is None:
        return PassSeed(seeds.fresh())
    number = next(_numbers.setdefault(node, {}).setdefault(given, count(1)))
    return PassSeed(seed_of_pass(given, number), number)


def resume_passes(node: Node, given: int | None, number: int | None) -> None:
    """Record that pass *number* of *node* is read from a state; the next pass follows it."""
    if given is not None and number is not None:
        _numbers.setdefault(node, {})[given] = count(number + 1)
