"""``penstock explain``: what the training loops of each pass wait for."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.explanation import mesh
from penstock.explanation.looks import JobLook
from penstock.explanation.trouble import Trouble
from penstock.explanation.verdict import Explanation, explain_job
from penstock.protocol.names import all_printable
from penstock_cluster.cli.client import as_json, screen
from penstock_cluster.cli.status import fetch


def show_explanations(target: str) -> None:
    """Print for each pass that runs what limits its loops, and the figures behind that."""
    trouble, found = _explained(target)
    if trouble is not None:
        screen.print(trouble.sentence, markup=False, highlight=False, soft_wrap=True)
    if not found:
        screen.print("no pass runs")
    for look, explanation in found:
        screen.print(f"{look.job}: {explanation}", markup=False, highlight=False, soft_wrap=True)


def explanations_json(target: str) -> str:
    """Return an object with what is wrong, if something is, and an object for each pass."""
    trouble, found = _explained(target)
    words = "" if trouble is None else trouble.sentence
    return as_json(trouble=words, passes=[_plain(*pair) for pair in found])


def _explained(target: str) -> tuple[Trouble | None, list[tuple[JobLook, Explanation]]]:
    plain = msgspec.json.encode(all_printable(msgspec.json.decode(fetch(target))))
    seen = mesh.look(plain)
    return seen.trouble, [(look, explain_job(look)) for look in seen.jobs]


def _plain(look: JobLook, explanation: Explanation) -> dict[str, Any]:
    return {
        "job": look.job,
        "iteration": look.iteration,
        "sentence": explanation.sentence,
        "limit": explanation.limit.name.lower(),
        "wait": explanation.wait,
        "operator": explanation.operator,
        "more_slots": explanation.more_slots,
        "more_workers": explanation.more_workers,
        "parallel_calls": explanation.parallel_calls,
        "slowest": explanation.slowest,
        "figures": explanation.figures,
    }
