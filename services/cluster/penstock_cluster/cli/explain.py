"""``penstock explain``: why the training loops of each pass wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.explanation.looks import JobLook
from penstock.explanation.trouble import counted
from penstock.explanation.verdict import Explanation, explain_job
from penstock_cluster.cli.client import as_json, screen
from penstock_cluster.cli.job_rows import JobRow, healthy_jobs, job_rows
from penstock_cluster.cli.look import Look, of_job
from penstock_cluster.cli.status import look
from penstock_dispatcher.page.job_view import Grade

WORST = 8
"""The number of passes that are explained; ``--all`` explains the others."""

FIGURES = 12
"""The most figures of the worst of several passes; ``--job`` shows the others."""


def show_explanations(target: str, job: str = "", *, everything: bool = False) -> None:
    """Print the limit of each running pass's training loops, the worst first, with figures.

    Raises:
        ConfigError: if *job* names no running pass.
    """
    for line in explained_lines(of_job(look(target), job), everything=everything):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)


def explained_lines(now: Look, *, everything: bool) -> Iterator[str]:
    """Yield the cluster's problem, and the limit of each running pass, the worst first.

    If several passes run, one line names the healthy ones, and only the worst pass gets figures.
    *everything* shows all of them in full.
    """
    if now.mesh.trouble is not None:
        yield now.mesh.trouble.sentence
    looks = {one.iteration: one for one in now.mesh.jobs}
    rows = [row for row in job_rows(now.stats, now.mesh) if row.iteration in looks]
    if not rows:
        yield "no pass runs"
    if everything or len(rows) == 1:
        yield from (f"{row.name}: {explain_job(looks[row.iteration])}" for row in rows)
        return
    unwell = [row for row in rows if row.grade is not Grade.HEALTHY]
    for row in unwell[:WORST]:
        yield from _explained(row, looks[row.iteration], FIGURES if row is unwell[0] else 0)
    if len(unwell) > WORST:
        yield f"{counted(len(unwell) - WORST, 'more job')}: --all explains them"
    if healthy := healthy_jobs(rows):
        yield healthy
    if rows:
        yield "figures of one job: --job NAME; of all: --all"


def _explained(row: JobRow, job: JobLook, most: int) -> Iterator[str]:
    told = explain_job(job)
    noted = f" ({row.what})" if row.grade is Grade.NOTED else ""
    yield f"{row.name}: {told.sentence}{noted}"
    yield from (f"  {line}" for line in told.figures[:most])


def explanations_json(target: str, job: str = "") -> str:
    """Return JSON: an object with the cluster's problem, if any, and an object for each pass."""
    now = of_job(look(target), job)
    words = "" if now.mesh.trouble is None else now.mesh.trouble.sentence
    return as_json(trouble=words, passes=[_plain(one, explain_job(one)) for one in now.mesh.jobs])


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
