"""Which guarantee a pipeline keeps: how often each element reaches a training step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from penstock.analysis.auto_shard import divided_operators
from penstock.analysis.determinism import nondeterminism, unjudged
from penstock.analysis.registered import Registered
from penstock.analysis.sharding import copied_operators, per_task_operators
from penstock.graph.node import Node
from penstock.graph.traversal import topological_order, walk
from penstock.ops.generator import Generator
from penstock.ops.internal.tracked_shuffle import cuts, keeps_nothing
from penstock.protocol.turn_shares import MixtureShares
from penstock.protocol.types import Mode


class Guarantee(Enum):
    """How often each element is handed out, strongest first."""

    EXACTLY_ONCE = "each element exactly once, whatever dies"
    EXACT_COPIES = "each task's copy exactly once, whatever dies"
    ONCE_WHILE_NOTHING_DIES = (
        "each element exactly once while nothing dies; when a worker or its process does, elements "
        "made since its last checkpoint may be lost or repeated, and are counted as "
        "nondeterministic"
    )
    COPIES_WHILE_NOTHING_DIES = (
        "each task's copy exactly once while nothing dies; when a worker or its process does, "
        "elements made since its last checkpoint may be lost or repeated, and are counted as "
        "nondeterministic"
    )


@dataclass(frozen=True, slots=True)
class Visitation:
    """How often each element is delivered: the result of `Dataset.visitation`. Print it."""

    promise: Guarantee
    """The guarantee for the elements of the pipeline; see *apart* for operators that differ."""
    apart: tuple[str, ...] = ()
    """Operators that see only each task's part of the elements, unlike in a local run."""
    reasons: tuple[str, ...] = ()
    """Why the guarantee is not stronger: for each weakness a sentence with the remedy."""
    notes: tuple[str, ...] = ()
    """Conditions of the guarantee, and its limits."""
    restored: str = ""
    """Positions of operators after `distribute` that a restored state does not keep."""
    mixtures: tuple[MixtureShares, ...] = ()
    """The shares of each mixture, if a span of steps was given."""

    def __str__(self) -> str:
        said = self.promise.value
        if self.apart:
            said += f"; but {_listed(self.apart)} only each task's own part of the elements"
        if self.restored:
            said += f"; but {self.restored}"
        lines = [said[0].upper() + said[1:] + "."]
        for title, sentences in (("Why:", self.reasons), ("Note:", self.notes)):
            if sentences:
                lines += [title, *(f"- {sentence}." for sentence in sentences)]
        lines += map(str, self.mixtures)
        return "\n".join(lines)


def visitation(root: Node) -> Visitation:
    """Return the guarantee that the pipeline that ends in *root* can keep, and why."""
    distributed = [node.on_workers for _, node in walk(root) if node.on_workers]
    if not distributed:
        return _of_pipeline(root, None)
    found = [_of_pipeline(node, mode) for node, mode in distributed]
    weakest = max((each.promise for each in found), key=list(Guarantee).index)
    apart = dict.fromkeys(label for each in found for label in each.apart)
    reasons = dict.fromkeys(reason for each in found for reason in each.reasons)
    notes = dict.fromkeys(note for each in found for note in each.notes)
    said = (tuple(apart), tuple(reasons), (*notes, *_cut(root), *_unsaved(root)))
    return Visitation(weakest, *said, _not_restored(root))


def _of_pipeline(root: Node, mode: Mode | None) -> Visitation:
    """Return what a pipeline that is distributed in *mode* can keep; None is not at all."""
    reasons = nondeterminism(root)
    promises = list(Guarantee)[2:] if reasons else list(Guarantee)[:2]
    alone = seen_apart(root, mode)
    apart = tuple(dict.fromkeys(node.label for node in alone))
    return Visitation(promises[mode is Mode.OFF], apart, reasons, tuple(_notes(root, mode, alone)))


def seen_apart(root: Node, mode: Mode | None) -> list[Node]:
    """Return the operators that work on each task's own part of the elements."""
    if mode is None or mode is Mode.OFF:
        return []
    return per_task_operators(root) if mode is Mode.DYNAMIC else divided_operators(root, mode)


def _notes(root: Node, mode: Mode | None, alone: list[Node]) -> Iterator[str]:
    """Yield what generators must keep to, and what becomes of the operators that are *alone*."""
    yield from unjudged(root)
    for node in topological_order(root):
        if isinstance(node, Generator):
            yield (
                f"{node.label} is run again from its start when elements are replayed: it must "
                "give the same ones each time"
            )
        if isinstance(node, Registered):
            yield (
                f"the pipeline with the dataset_id {node.dataset_id!r} is not here: which of its "
                "operators see each task's own part, its visitation() says where it is registered"
            )
    if mode is Mode.DYNAMIC:
        for node in copied_operators(root):
            yield (
                f"{node.label}: each worker has one copy of {_COPIED[node.op]}, which is not "
                "split, and plays all of it; a worker runs one task of it, whatever its slots"
            )
    for label, op in dict.fromkeys((node.label, node.op) for node in alone):
        yield f"{label} sees each task's own part: {_APART.get(op, _OTHERS)}; {_BEHIND}"


def _cut(root: Node) -> Iterator[str]:
    """Yield a note for what cuts elements that come from workers into pieces."""
    for node in _behind(root):
        if node.splits_elements:
            yield (
                f"{node.label} after distribute cuts elements into pieces, and an element is "
                "acked once it is begun: its other pieces are lost if this process dies and no "
                "saved state is restored; do it before distribute"
            )


def _unsaved(root: Node) -> Iterator[str]:
    """Yield a note for what keeps consumers of coordinated reads from needing the same round."""
    if not any(node.in_rounds for _, node in walk(root)):
        return
    for node in _behind(root):
        if node.splits_elements or node.op in _SELECTING or node.op == "filter":
            yield (
                f"{node.label} behind distribute: state() of coordinated reads raises SaveFailed "
                "while consumers need different rounds next; do it before distribute, or read with "
                "ordered=True"
            )


def _not_restored(root: Node) -> str:
    """Return which operators behind `distribute` start over at a restore, and when; "" if none."""
    behind = [node for node in _behind(root) if node.splits_elements or node.op in _HOLDERS]
    labels = " and ".join(dict.fromkeys(node.label for node in behind))
    if any(_has_gaps(node) for node in behind):
        return (
            f"a restored state starts {labels} behind distribute over: no element is lost, and "
            "one that was cut into pieces comes again whole, with the pieces that a loop had"
        )
    if behind:
        return (
            f"a state restored by another number of readers, or by several that share a job, "
            f"starts {labels} behind distribute over: no element is lost, and one that was cut "
            "into pieces comes again whole, with the pieces that a loop had"
        )
    return ""


def _behind(root: Node) -> Iterator[Node]:
    """Yield the operators that read elements of workers."""
    for path, node in walk(root):
        if any(below.on_workers and where.startswith(f"{path}.") for where, below in walk(root)):
            yield node


def _has_gaps(node: Node) -> bool:
    """Return whether the operator holds what cannot be made again from its elements alone."""
    if node.op in _SELECTING:
        return not any(cuts(below) or keeps_nothing(below) for below in node.inputs)
    return node.op == "cache"


def _listed(labels: tuple[str, ...]) -> str:
    if len(labels) == 1:
        return f"{labels[0]} sees"
    return f"{', '.join(labels[:-1])} and {labels[-1]} see"


_COPIED = {"choose_from_datasets": "its choice_dataset"}
"""How operators call the input that each task reads whole."""

_GROUPS = "each ends with a smaller one or, with drop_remainder, drops it"
_GROUPS_OF_TOKENS = "each ends with packs that are not full"
_CHOSEN = "each chooses among the elements that it drew, and stops by itself"
_OTHERS = "the result depends on how these are divided"
_APART = {
    "batch": _GROUPS,
    "padded_batch": _GROUPS,
    "rebatch": _GROUPS,
    "window": _GROUPS,
    "group_by_window": _GROUPS,
    "bucket_by_sequence_length": _GROUPS,
    "pack": _GROUPS_OF_TOKENS,
    "token_batches": _GROUPS_OF_TOKENS,
    "balance": "each makes rounds of its own elements, and the last round may be short",
    "take": "each takes this number",
    "skip": "each skips this number",
    "take_while": "each ends at the first that it meets",
    "enumerate": "each counts from the start",
    "scan": "each has a state of its own",
    "unique": "an element that two of them have comes twice",
    "choose_from_datasets": _CHOSEN,
    "sample_from_datasets": _CHOSEN,
    "mixed_streams": "each mixes the elements that it drew",
    "ignore_errors": "each counts its own errors",
}
"""How each operator works when every task runs it on its own part of the elements."""

_BEHIND = "put it behind distribute where it must see all of them"

_SELECTING = frozenset(
    {"balance", "bucket_by_sequence_length", "group_by_window", "pack", "shuffle", "token_batches"}
)
"""Operators that buffer some of their elements, and not only the newest."""
_HOLDERS = _SELECTING | {
    "cache",
    "choose_from_datasets",
    "mixed_streams",
    "sample_from_datasets",
    "scan",
}
"""Operators whose place is more than the elements that are left."""
