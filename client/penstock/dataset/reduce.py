"""Turn a whole dataset into one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dataset.iterator import DatasetIterator
from penstock.element import Element, arranged, describe, own_nest
from penstock.engine import seeds
from penstock.errors import DatasetError
from penstock.executors.function import UserFunction, transform_error
from penstock.graph.node import Node, function_name
from penstock.graph.traversal import options_of
from penstock.normalise import as_arrays, normalise


def reduce(node: Node, initial: Any, fn: Callable[..., Any]) -> Element:
    """Return the last state of ``state = fn(state, element)``; see `Dataset.reduce`."""
    if not callable(fn):
        raise DatasetError(f"reduce: reduce_func must be callable, not {fn!r}")
    state = normalise(as_arrays(initial))
    given = options_of(node).seed
    label = f"reduce({function_name(fn)})"
    call = UserFunction(
        fn, label, seeds.fresh() if given is None else seeds.derive(given, "reduce")
    )
    with DatasetIterator(node) as elements:
        for number, element in enumerate(elements):
            answer = call((own_nest(state), element), number)
            try:
                state = _next(answer, state)
            except BaseException as exc:
                raise transform_error(label, number, exc, element) from exc
    return state


def single(node: Node) -> Element:
    """Return the only element of *node*; see `Dataset.get_single_element`."""
    with DatasetIterator(node) as elements:
        found = [element for element, _ in zip(elements, range(2), strict=False)]
    if len(found) != 1:
        raise DatasetError(
            f"get_single_element: the dataset has {'more than one' if found else 'no'} element; "
            "it takes a dataset of exactly one: see take(1) and batch"
        )
    return found[0]


def _next(answer: Any, before: Element) -> Element:
    returned = normalise(answer)
    state = arranged(before, returned)
    if state is None:
        raise DatasetError(
            f"reduce_func was given {describe(before)} and returned {describe(returned)}; it must "
            "keep the structure of initial_state"
        )
    return state
