"""The seed of each pass over a dataset that was given one seed for the whole run.

Passes of one dataset object are counted from 1, for each seed. So epochs differ, and a program that
reads the same datasets in the same way again gets the same elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from penstock.engine import seeds
from penstock.graph.node import Node
from penstock.graph.traversal import options_of
from penstock.options import check_seed

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


def of_pass(given: int, number: int) -> int:
    """Return the seed of pass *number* under the seed that was *given*."""
    return seeds.derive(given, "pass", number)


def next_pass(node: Node, given: int | None) -> PassSeed:
    """Return the seed of the next pass over *node*; without a *given* one it is a new one."""
    if given is None:
        return PassSeed(seeds.fresh())
    number = next(_numbers.setdefault(node, {}).setdefault(given, count(1)))
    return PassSeed(of_pass(given, number), number)


def resume(node: Node, given: int | None, number: int | None) -> None:
    """Record that pass *number* of *node* is read from a state; the next pass follows it."""
    if given is not None and number is not None:
        _numbers.setdefault(node, {})[given] = count(number + 1)
