"""Deals the splits of a stream to tasks at random, and runs a task over them."""

from __future__ import annotations

from random import Random
from typing import Any

from penstock.analysis.index_selection import selected
from penstock.analysis.sharding import assignments
from penstock.engine.context import Context
from penstock.engine.splits import SplitReader
from penstock.graph.node import Node
from penstock.graph.run import open_root
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.splits import Split


def deal(rng: Random, stream: SplitProviderSpec, tasks: int, most: int = 3) -> list[list[Split]]:
    """Deal the units of *stream* to the logs of tasks, in splits of up to *most*, pass by pass."""
    logs: list[list[Split]] = [[] for _ in range(tasks)]
    for _ in range(stream.passes):
        start = 0
        while start < stream.units:
            stop = min(start + stream.align * rng.randint(1, most), stream.units)
            rng.choice(logs).append(Split(start, stop))
            start = stop
        for log in logs:
            log.append(Split(stream.units, stream.units))
    return logs


def run_task(node: Node, streams: list[SplitProviderSpec], logs: list[list[Split]]) -> list[Any]:
    """Return the elements of a task that drew *logs*, one for each stream."""
    splits = SplitReader(lambda stream, position: logs[stream][position])
    context = Context(1, splits=splits, providers=assignments(streams))
    run = open_root(selected(node), context)
    out: list[Any] = []
    while block := run.block(3):
        out += block
    return out
