"""Passes of a source are numbered as the run of a pipeline numbers them."""

from dataclasses import dataclass

import pytest

from penstock.analysis.sharding import split_providers
from penstock.dataset.iterator import DatasetIterator
from penstock.engine.context import Context
from penstock.graph.node import Node
from penstock.graph.run import open_root
from penstock.ops.range import Range
from penstock.ops.repeat import Repeat
from penstock_dispatcher.core.split_provider import pass_number_of
from tests.analysis.bare_nodes import mapped


@pytest.mark.parametrize("counts", [(), (3,), (2, 3), (None,), (2, None), (2, 1, 3)])
def test_each_pass_has_the_turn_that_it_has_in_a_local_run(counts):
    turns = []

    @dataclass(frozen=True, eq=False)
    class Turns(Node):
        op = "turns"
        cardinality = 1

        def units(self):
            return 1

        def open(self, context, state):
            turns.append(context.pass_key)
            return open_root(Range(0, 1, 1), Context(0))

    root = Turns()
    for count in reversed(counts):
        root = Repeat(mapped(root), count)
    with DatasetIterator(root) as it:
        for _ in zip(it, range(12), strict=False):
            pass
    (stream,) = split_providers(root)

    assert turns == [pass_number_of(stream.repeats, number) for number in range(len(turns))]
    assert len(set(turns)) == len(turns) >= min(12, abs(stream.passes))
