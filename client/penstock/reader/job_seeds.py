"""The seeds of a run that reads jobs: of each job, and of the operators behind them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.engine import seeds
from penstock.graph.node import Node
from penstock.graph.run import seed_of_pass
from penstock.graph.traversal import options_of
from penstock.reader.node import Distribute

_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class JobSeeds:
    """The seed of each job, by the path of its `distribute`, and that of the operators here."""

    jobs: Mapping[str, int | None]
    operators: int


def job_seeds(root: Node, jobs: Mapping[str, Distribute], explicit: int | None) -> JobSeeds:
    """Return the seeds of a run of *root*, whose iterator was given an *explicit* one or None.

    Of several jobs that get their seed from one place, each has another one. The operators of a
    consumer, or of a rank, draw other numbers than those of the next one: they get other elements.
    """
    behind = options_of(root).seed
    found = {
        path: _seed_of(node, number, explicit, behind)
        for number, (path, node) in enumerate(jobs.items())
    }
    first = next(iter(jobs.values()))
    given = next((seed for seed in (explicit, behind, *found.values()) if seed is not None), None)
    if given is None:
        return JobSeeds(found, seeds.fresh())
    here = seed_of_pass(given, first.passes.count + 1)
    who = os.environ.get("RANK", "") if first.consumer is None else str(first.consumer[0])
    return JobSeeds(found, seeds.derive(here, "reader", who) if who else here)


def _seed_of(node: Distribute, number: int, explicit: int | None, behind: int | None) -> int | None:
    if explicit is None and (node.seed is not None or behind is None):
        return node.own_seed
    shared = behind if explicit is None else explicit
    return shared if not number else seeds.derive(shared or 0, "job", number) & _MOST
