"""Mixtures: one dataset of several, in shares that hold at any point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import starmap
from typing import Any, Literal, Self, TypeAlias, get_args

from penstock.element import shown
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, Node
from penstock.graph.traversal import DatasetBase
from penstock.ops.global_shuffle import with_indexes
from penstock.ops.internal.stretch import obstacle
from penstock.ops.mixed_streams import MixedStreams
from penstock.ops.mixture import Mixture
from penstock.ops.repeat import Repeat
from penstock.options import check_count
from penstock.protocol.mixture import MOST_PARTS, Stop, Weights, most_parts, stages_of

Unit: TypeAlias = Literal["elements", "tokens", "bytes"]
"""The unit of the shares of a mixture; see `Dataset.mixture`."""


class Mixing(DatasetBase):
    """The class method that mixes datasets by weight."""

    __slots__ = ()

    @classmethod
    def mixture(
        cls,
        datasets: Mapping[str, DatasetBase],
        weights: Weights,
        *,
        unit: Unit = "elements",
        length: Callable[[Any], int] | None = None,
        stop: Stop = "repeat",
        max_epochs: int | Mapping[str, int] | None = None,
        seed: int | None = None,
        turns_per_task: int = 2048,
    ) -> Self:
        """Return a dataset that takes each element from one of several, in exact shares.

        Turn *i* of the mixture takes the next element of one dataset. Which one follows from the
        weights, the seed and *i* alone. Among the first *n* turns, each dataset has less than one
        turn more or less than its share of *n*. So the sequence is the same in one process, on any
        number of workers with ``ordered=True``, and after a restored state.

        A dataset keeps its own operators. For one sequence on all workers, each dataset needs an
        index, so that a worker can begin anywhere: a source such as `range`, `from_sequence`,
        `from_tensor_slices` or a file format with an index, with or without `global_shuffle`,
        `take`, `skip`, `shard`, `enumerate`, `batch`, `zip`. After that, `map`, `filter`,
        `ignore_errors` and `prefetch` may follow. If these drop an element, the next element of the
        same dataset takes its turn, and shares count elements of the index.

        If a dataset has no index, or *unit* is not ``"elements"``, each task mixes the elements
        that it reads, in the same shares. ``ordered=True`` is then refused, or, if the reader has a
        *consumer_index*, the sequence depends on the number of workers.

        Args:
            datasets: the datasets by name.
            weights: a weight for each name; missing ones are 0. Only their ratios matter. Or a list
                of points ``[(turn, weights), ...]``, from turn 0 on. Between two points, weights
                change linearly. The last ones hold from then on. Ratios are exact if whole numbers
                that sum to at most 65,536 have them, and otherwise rounded to such numbers. If
                datasets end one by one, the sum is at most 2**20 divided by their number, or 4,096
                if that is more.
            unit: what shares count: ``"elements"``; or ``"tokens"`` or ``"bytes"``, and *length*
                says how many an element has. Then each turn goes to the dataset that is owed most,
                which is its share of the total, less the total that it gave.
            length: a function of an element that returns an integer of at least 0. An element of
                length 0 counts as 1, so that a dataset of such elements does not take all turns.
            stop: what happens when a dataset has no more elements. ``"repeat"``: it begins its next
                pass. ``"first"``: the mixture ends. ``"all"``: it begins its next pass, and the
                mixture ends when each dataset has given a whole pass. ``"drop"``: the others share
                its turns, until all have ended.
            max_epochs: with ``stop="repeat"``, how many passes each dataset gives, or a number for
                each name. After that, the others share its turns. By default there is no limit.
            seed: decides between datasets that could take a turn equally well. The shares are the
                same for all seeds.
            turns_per_task: with ``ordered=True``, how many turns one task makes. If datasets drop
                elements, the order depends on it.

        Raises:
            DatasetError: when a weight is negative, not finite or of an unknown name, or all are 0;
                when a dataset has no elements; or when another argument is malformed.
            TransformError: in the place of an element for which *length* raises, or returns another
                value.

        >>> web, code = Dataset.range(100), Dataset.range(-100, 0)
        >>> mixed = Dataset.mixture({"web": web, "code": code}, {"web": 0.75, "code": 0.25})
        >>> list(mixed.take(8).batch(8))
        [array([   0, -100,    1,    2,    3,  -99,    4,    5])]
        """
        return cls(
            _mixture_of(
                {name: each.node for name, each in _checked(datasets).items()},
                weights,
                unit,
                length,
                stop,
                max_epochs,
                seed,
                turns_per_task,
            )
        )


def _checked(datasets: Mapping[str, DatasetBase]) -> Mapping[str, DatasetBase]:
    named = isinstance(datasets, Mapping) and all(isinstance(name, str) for name in datasets)
    if not named or not all(isinstance(each, DatasetBase) for each in datasets.values()):
        raise DatasetError(
            f"mixture: datasets must be a dict of Datasets by name, not {shown(datasets)}"
        )
    if not datasets:
        raise DatasetError("mixture: datasets must not be empty")
    return datasets


def _mixture_of(
    nodes: Mapping[str, Node],
    weights: Weights,
    unit: str,
    length: Callable[..., Any] | None,
    stop: str,
    max_epochs: int | Mapping[str, int] | None,
    seed: int | None,
    turns_per_task: int,
) -> Node:
    names = tuple(nodes)
    sources_end = stop == "drop" or max_epochs is not None
    most = most_parts(len(names)) if sources_end else MOST_PARTS
    stages = tuple((each.begin, each.parts) for each in stages_of(weights, names, most))
    _check_choice("stop", stop, get_args(Stop))
    _check_choice("unit", unit, get_args(Unit))
    if unit != "elements" and not callable(length):
        raise DatasetError(
            f"mixture: unit={unit!r} needs length, a function that returns how many {unit} an "
            f"element has, and not {length!r}"
        )
    if unit == "elements" and length is not None:
        raise DatasetError(
            'mixture: length is for unit="tokens" and unit="bytes", and unit is "elements"'
        )
    epochs = _epochs(max_epochs, names, stop)
    seed = check_count("mixture", "seed", seed or 0, least=-(2**63))
    turns = check_count("mixture", "turns_per_task", turns_per_task)
    for name, node in nodes.items():
        if node.cardinality == 0:
            raise DatasetError(f"mixture: the dataset {name!r} has no elements: leave it out")
    why = f"with unit={unit!r} each turn depends on the {unit} of all elements before it"
    if unit == "elements":
        inputs = {name: with_indexes(node) for name, node in nodes.items()}
        why = next(filter(None, starmap(_obstacle, inputs.items())), "")
        if not why:
            return Mixture(tuple(inputs.values()), names, stages, stop, epochs, seed, turns)
    streams = tuple(
        _repeated(node, stop, most) for node, most in zip(nodes.values(), epochs, strict=True)
    )
    return MixedStreams(streams, names, stages, stop, seed, unit, why, length)


def _obstacle(name: str, node: Node) -> str:
    found = obstacle(node)
    return "" if found is None else f"{found.label} of {name!r} has no index of its elements"


def _repeated(node: Node, stop: str, most: int | None) -> Node:
    again = stop in ("repeat", "all") and node.cardinality != INFINITE
    return Repeat(node, most) if again else node


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise DatasetError(f"mixture: {name} must be one of {known}, not {value!r}")


def _epochs(
    given: int | Mapping[str, int] | None, names: tuple[str, ...], stop: str
) -> tuple[int | None, ...]:
    if given is None:
        return (None,) * len(names)
    if stop != "repeat":
        raise DatasetError(
            f'mixture: max_epochs is for stop="repeat", and stop is {stop!r}: leave one out'
        )
    if not isinstance(given, Mapping):
        return (check_count("mixture", "max_epochs", given),) * len(names)
    for name in given:
        if name not in names:
            known = ", ".join(map(repr, names))
            raise DatasetError(f"mixture: max_epochs names the dataset {name!r}; there are {known}")
    return tuple(
        check_count("mixture", f"max_epochs of {name!r}", given[name]) if name in given else None
        for name in names
    )
