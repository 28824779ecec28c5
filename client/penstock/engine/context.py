"""The context of a running operator: its run, its seeds, and the limits of its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from penstock.autotune.budget import ProcessShare
from penstock.autotune.tuning import Tuning
from penstock.engine import seeds
from penstock.engine.iterator import OpIterator, State
from penstock.engine.op_times import OpTimes
from penstock.engine.splits import SplitReader
from penstock.engine.tallies import Tallies, Tally
from penstock.engine.unacked import without_unacked
from penstock.errors import PenstockError, StateError
from penstock.options import Options


class Opens(Protocol):
    """A node of a graph as the engine sees it: it makes a running operator."""

    @property
    def label(self) -> str:
        """The name of the node in messages."""

    def open(self, context: Context, state: State) -> OpIterator:
        """Return the operator, running from *state* on."""


class SourceSessions(Protocol):
    """The sessions of a run that reads jobs; `penstock.reader.delivery.sessions` has them."""

    def first_pass(self, path: str) -> int | None:
        """Return the pass in which the `repeat` at *path* begins, if it continues from a state."""


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of one operator in one run of a pipeline.

    *path* is the operator's position in the graph: "" is the outermost, and each step towards the
    sources adds ".0", ".1" and so on.
    """

    base_seed: int
    """The seed of everything below: a function of the job's seed, the task, the inner dataset."""
    common_seed: int | None = None
    """A seed that is the same for all tasks; None if there is only one."""
    pass_key: int = 0
    """Which pass of the enclosing `repeat`s this is; 0 outside of any and in the first."""
    path: str = ""
    splits: SplitReader | None = None
    providers: dict[str, int] = field(default_factory=dict)
    """Which split provider a source draws from, by the source's path; others read everything."""
    shared: dict[str, object] = field(default_factory=dict)
    """Objects that operators keep for the whole run, by path, such as a `cache` in memory."""
    persistent: bool = False
    """Whether operators may use objects that earlier runs in this process kept. They may not if
    elements must be a function of the task alone."""
    sessions: SourceSessions | None = None
    """The sessions of the jobs that this run reads; marks name their unacked tags, see
    `engine.unacked`."""
    passes: tuple[tuple[str, int], ...] = ()
    """The passes of the enclosing `repeat`s, outermost first, each with the path of its repeat."""
    tallies: Tallies = field(default_factory=Tallies)
    """The sums that the run's operators count."""
    share: int = 1
    """This run may use 1/*share* of the host's cores and memory."""
    processes: ProcessShare | None = None
    """The processes to which calls may move if threads do not help; None: there are none."""
    tuning: Tuning | None = None
    """The run's tuning, from the options; None before anything is opened."""
    on_open: Callable[[str, Any], object] | None = None
    """Called with each operator that is opened and its path, including those of inner datasets."""
    times: OpTimes | None = None
    """Measures how long operators work; None: nothing is measured."""

    @classmethod
    def local(
        cls,
        seed: int,
        task: int = 0,
        *,
        persistent: bool = False,
        sessions: SourceSessions | None = None,
    ) -> Context:
        """Return the context of a run that reads every source whole."""
        base_seed, common_seed = seeds.derive(seed, "task", task), seeds.derive(seed, "tasks")
        return cls(base_seed, common_seed, persistent=persistent, sessions=sessions)

    @property
    def draws_splits(self) -> bool:
        """Whether this operator is a source that draws splits."""
        return self.splits is not None and self.path in self.providers

    def open(
        self, node: Opens, state: State = None, *, branch: int = 0, pass_number: int | None = None
    ) -> OpIterator:
        """Run *node*, this operator's input number *branch*, from *state* on.

        A *pass_number* makes it one of several passes over the same input (0 is the first).
        """
        path = f"{self.path}.{branch}"
        if pass_number is None:
            return open_node(node, replace(self, path=path), state)
        number = seeds.pass_key(self.pass_key, self.path, pass_number)
        passes = (*self.passes, (self.path, pass_number))
        return open_node(node, replace(self, path=path, pass_key=number, passes=passes), state)

    def inner(self, number: int) -> Context:
        """Return the context of the inner dataset made from input element *number*."""
        base_seed = seeds.derive(self.base_seed, self.path, self.pass_key, "inner", number)
        return Context(
            base_seed,
            path=f"{self.path}/",
            pass_key=self.pass_key,
            tallies=self.tallies,
            tuning=self.tuning,
            on_open=self.on_open,
        )

    def alike(self) -> Context:
        """Return this context with the seed that all tasks have in common."""
        return self if self.common_seed is None else replace(self, base_seed=self.common_seed)

    def tally(self, label: str, unit: str = "") -> Tally:
        """Return where this operator, which has the *label*, counts what it makes, in *unit*."""
        return self.tallies.of(self.path, label, unit)

    @property
    def tuned(self) -> Tuning:
        """The run's tuning; that of no options if an operator is opened by itself."""
        return self.tuning or Tuning.of(Options())

    def seed(self, explicit: int | None = None, *, every_pass: bool = True) -> int:
        """Return the operator's seed: from *explicit* if the user gave one, else from the job's.

        An explicit seed gives the same sequence in every task and in every new iterator. The job's
        seed does so too if the operator draws splits, which mean the same to all tasks. With
        *every_pass*, each pass of a `repeat` around the operator has its own seed.
        """
        base = explicit
        if base is None:
            common = self.common_seed if self.draws_splits else None
            base = seeds.derive(self.base_seed if common is None else common, self.path)
        return seeds.derive(base, "turn", self.pass_key) if every_pass and self.pass_key else base


def open_node(node: Opens, context: Context, state: State = None) -> OpIterator:
    """Run *node* in *context* from *state* on; a state of another shape raises a clear error."""
    if context.on_open is not None:
        context.on_open(context.path, node)
    try:
        running = node.open(context, without_unacked(state))
    except (TypeError, ValueError, KeyError, IndexError) as exc:
        if state is None or isinstance(exc, PenstockError):
            raise
        raise StateError(
            f"the saved state does not fit {node.label} (at {context.path or 'the end'}): {exc}"
        ) from exc
    if context.times is not None:
        context.times.watch(running, context.path, node.label)
    return running
