"""Mixtures: one dataset of several, in shares that hold at any point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, get_args

from penstock.element import shown
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.graph.traversal import DatasetBase
from penstock.ops.global_shuffle import with_indexes
from penstock.ops.mixture import Mixture
from penstock.options import check_count
from penstock.protocol.mixture import Stop, Weights, stages_of


class Mixing(DatasetBase):
    """The class method that mixes datasets by weight."""

    __slots__ = ()

    @classmethod
    def mixture(
        cls,
        datasets: Mapping[str, DatasetBase],
        weights: Weights,
        *,
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

        A dataset keeps its own operators. It needs an index, so that a worker can begin anywhere:
        a source such as `range`, `from_sequence`, `from_tensor_slices` or a file format with an
        index, with or without `global_shuffle`, `take`, `skip`, `shard`, `enumerate`, `batch`,
        `zip`. After that, `map`, `filter`, `ignore_errors` and `prefetch` may follow. If these drop
        an element, the next element of the same dataset takes its turn. Shares count elements of
        the index.

        Args:
            datasets: the datasets by name.
            weights: a weight for each name; missing ones are 0. Only their ratios matter. Or a list
                of points ``[(turn, weights), ...]``, from turn 0 on. Between two points, weights
                change linearly. The last ones hold from then on.
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
                when a dataset has no elements or no index; or when another argument is malformed.

        >>> web, code = Dataset.range(100), Dataset.range(-100, 0)
        >>> mixed = Dataset.mixture({"web": web, "code": code}, {"web": 0.75, "code": 0.25})
        >>> list(mixed.take(8).batch(8))
        [array([   0, -100,    1,    2,    3,  -99,    4,    5])]
        """
        return cls(
            _mixture_of(
                {name: each.node for name, each in _checked(datasets).items()},
                weights,
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
    stop: str,
    max_epochs: int | Mapping[str, int] | None,
    seed: int | None,
    turns_per_task: int,
) -> Node:
    """Return the mixture of *nodes*; see `Dataset.mixture`.

    Raises:
        DatasetError: naming the argument that is malformed, or the dataset that cannot be mixed.
    """
    names = tuple(nodes)
    stages = tuple((each.begin, each.parts) for each in stages_of(weights, names))
    if stop not in get_args(Stop):
        raise DatasetError(
            f"mixture: stop must be {', '.join(map(repr, get_args(Stop)))}, not {stop!r}"
        )
    epochs = _epochs(max_epochs, names, stop)
    if seed is not None:
        seed = check_count("mixture", "seed", seed, least=-(2**63), most=None)
    turns = check_count("mixture", "turns_per_task", turns_per_task)
    inputs = tuple(with_indexes(node) for node in nodes.values())
    return Mixture(inputs, names, stages, stop, epochs, seed or 0, turns)


def _epochs(
    given: int | Mapping[str, int] | None, names: tuple[str, ...], stop: str
) -> tuple[int | None, ...] | None:
    if given is None:
        return None
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
