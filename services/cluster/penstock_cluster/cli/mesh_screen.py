"""``penstock status --watch``: what the page of the dispatcher shows, on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.explanation.trouble import counted
from penstock.protocol.names import printable
from penstock_cluster.cli.grid import rate
from penstock_cluster.cli.picture import busy_cores, running_tasks
from penstock_dispatcher.core.stats import WorkerSummary
from penstock_dispatcher.fact_log import NoticeKind
from penstock_dispatcher.page.headline import Headline, Tone, name_of
from penstock_dispatcher.page.history import DatedNotice, History, Moment
from penstock_dispatcher.page.job_view import JobView
from penstock_dispatcher.page.mesh_view import WorkerNode, worker_groups
from penstock_dispatcher.page.snapshot import PageSnapshot, Totals, whole
from penstock_dispatcher.page.standing import (
    LOST,
    NOT_HEARD,
    SLOW,
    PassStanding,
    WorkerLoad,
    WorkerStanding,
    load_of,
    standing_of_worker,
)

TONES = {
    Tone.GOOD.value: ("GOES ON", "green"),
    Tone.WAITS.value: ("WAITS", "yellow"),
    Tone.BAD.value: ("NEEDS A LOOK", "red"),
    Tone.IDLE.value: ("IDLE", "dim"),
}

STYLES = {
    WorkerStanding.LIVE.value: "green",
    WorkerStanding.DRAINS.value: "yellow",
    WorkerStanding.SILENT.value: "yellow",
    WorkerStanding.UNREACHABLE.value: "yellow",
    WorkerStanding.DISCONNECTED.value: "red",
    LOST: "red",
    SLOW: "yellow",
    PassStanding.RUNNING.value: "green",
    PassStanding.FAILED.value: "red",
}

MARKS = {
    NoticeKind.LOST: ("✕", "red"),
    NoticeKind.FAILED: ("✕", "red"),
    NoticeKind.UNBALANCED: ("✕", "red"),
    NoticeKind.REQUEUED: ("↺", "yellow"),
    NoticeKind.DRAIN: ("▽", "yellow"),
}

BARS = "▁▂▃▄▅▆▇█"

SPARK = 24
"""Looks that a line of bars shows."""

NOTICES = 4
"""The most sentences on what happened that are shown."""

JOB_LINES, ROWS_LEAST = 6, 3
"""Lines of a job, and of workers that are shown in any case."""


def mesh_screen(history: History, moment: Moment, lines: int, job: str = "") -> RenderableType:
    """Return the mesh at *moment*, the last of *history*, in about *lines* lines.

    With *job* its jobs are those with that in their names.
    """
    seen = whole(history, moment)
    jobs = [one for one in seen.jobs or () if job in name_of(one)]
    assert seen.headline is not None  # noqa: S101  it is whole
    assert seen.totals is not None  # noqa: S101  as above
    running = [one for one in jobs if one.standing != PassStanding.FINISHED.value]
    wrong = [one for one in jobs if one.balance.faults and one not in running]
    notices = list(history.notices)[-NOTICES:]
    room = lines - 8 - len(wrong) - (len(notices) + 3 if notices else 0)
    most = max(1, (room - ROWS_LEAST - 2) // JOB_LINES)
    rows = max(ROWS_LEAST, room - 2 - JOB_LINES * min(most, len(running)))
    return Group(
        _bar(seen),
        *_headline(seen.headline),
        _totals(seen.totals, load_of(_heard(moment))),
        *(part for one in running[:most] for part in _job(one, history)),
        *_more(len(running) - most, "job", "penstock jobs lists all"),
        *(_unbalanced(one) for one in wrong),
        *_workers(seen, moment, rows),
        *_log(notices),
    )


def _bar(seen: PageSnapshot) -> Text:
    known = seen.dispatcher
    address = known.address if known is not None else ""
    version = f", penstock {known.penstock}" if known is not None and known.penstock else ""
    at = time.strftime("%H:%M:%S", time.localtime(seen.at))
    open_to_all = "  insecure" if known is not None and known.insecure else ""
    return Text.assemble(
        (f"penstock {address}", "bold"),
        f"{version}  {at}",
        (open_to_all, "red"),
        ("  q ends", "dim"),
    )


def _headline(said: Headline) -> Iterator[Text]:
    word, style = TONES[said.tone]
    after = said.after if said.after.startswith(",") else f" {said.after}"
    yield Text.assemble(
        "\n", (f" {word} ", f"bold reverse {style}"), "  ", (said.before, "bold"), " ",
        (said.number, f"bold {style}"), (after.rstrip(), "bold"),
    )  # fmt: skip
    if said.detail:
        yield Text(said.detail, "dim")


def _totals(totals: Totals, load: WorkerLoad) -> Text:
    unwell = "".join(
        f", {count:,} {name}" for name, count in totals.standings.items() if name != "live"
    )
    cores = "" if load.cores is None else f" · {busy_cores(load)} cores busy"
    tasks = counted(totals.tasks, "task")
    tasks = tasks if load.running is None else f"{running_tasks(load)} of {tasks} running"
    return Text(
        f"\n{counted(totals.workers, 'worker')}{unwell}{cores} · "
        f"{counted(totals.running, 'job')} · "
        f"{counted(totals.readers, 'reader')} · "
        f"{tasks} · "
        f"{rate(totals.elements)} elements/s · {totals.nbytes / 1e6:,.1f} MB/s"
    )


def _heard(moment: Moment) -> list[WorkerSummary]:
    return [one for one in moment.stats.workers if standing_of_worker(one) not in NOT_HEARD]


def _job(job: JobView, history: History) -> Iterator[RenderableType]:
    unread = f" for {job.unread:,.0f} s" if job.unread is not None else ""
    yield Text.assemble(
        "\n", (printable(name_of(job)), "bold"), "  ",
        (f"{job.standing}{unread}", STYLES.get(job.standing, "dim")),
        (f"  repetition {job.repetition}, {job.mode}", "dim"),
    )  # fmt: skip
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    if (sample := job.sample) is not None:
        line = history.lines.get(job.iteration)
        waits = line.columns()["wait"][-SPARK:] if line is not None else []
        table.add_row(
            "waits",
            Text.assemble(
                (f"{100 * sample.wait:3.0f} % ", "bold"), (spark(waits), "yellow"),
                f"  buffers {100 * sample.filled:.0f} %, at readers {100 * sample.held:.0f} %",
            ),
        )  # fmt: skip
        table.add_row(
            "rates",
            f"{rate(sample.elements)} elements/s, {rate(sample.steps)} steps/s, "
            f"{sample.nbytes / 1e6:,.1f} MB/s",
        )
    operators = ", ".join(f"{one.label} {100 * one.worked:.0f} %" for one in job.operators[:3])
    table.add_row("time", operators or "not known yet")
    table.add_row("account", _account(job))
    yield table
    for trouble in (job.waiting_for and f"waits for {job.waiting_for}", job.held_by):
        if trouble:
            yield Text(trouble, "yellow")
    yield from (Text(one, "red") for one in job.troubles[:1])


def _account(job: JobView) -> Text:
    if job.balance.faults:
        return Text("; ".join(job.balance.faults), "red")
    known = job.balance
    more = "".join(
        f", {count:,} {word}"
        for count, word in (
            (known.requeued, "requeued"),
            (known.replayed, "replayed"),
            (known.redelivered, "redelivered"),
            (known.errors, "left out"),
        )
        if count
    )
    return Text(f"{known.acked:,} acked, {known.consumed:,} consumed{more}")


def _unbalanced(job: JobView) -> Text:
    faults = "; ".join(job.balance.faults)
    return Text(f"the account of {printable(name_of(job))} does not balance: {faults}", "bold red")


def _workers(seen: PageSnapshot, moment: Moment, rows: int) -> Iterator[RenderableType]:
    nodes: Sequence[WorkerNode] = seen.mesh.workers if seen.mesh is not None else ()
    if not nodes:
        yield Text("\nno worker is registered", "yellow")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("\nworker", overflow="fold")
    table.add_column("\nstate")
    for name in ("busy cores", "running", "elements/s"):
        table.add_column(f"\n{name}", justify="right")
    most = max(node.rate for node in nodes)
    table.add_column("\n")
    groups = worker_groups(moment)
    groups |= {one.address: [one] for one in moment.stats.workers}
    for node in nodes[:rows]:
        load = load_of(groups.get(node.key, ()))
        many = f" ({node.count:,})" if node.count > 1 else ""
        table.add_row(
            Text(f"{node.label}{many}"),
            Text(_standing(node), STYLES.get(node.standing, "")),
            busy_cores(load),
            f"{running_tasks(load)} of {node.tasks:,}",
            rate(node.rate),
            Text("█" * round(4 * node.rate / most) if most > 0 else "", "blue"),
        )
    yield table
    yield from _more(len(nodes) - rows, "worker", "penstock top shows them by rate")


def _standing(node: WorkerNode) -> str:
    return node.standing if node.lost is None else f"lost {node.lost:.0f} s ago"


def _log(notices: Sequence[DatedNotice]) -> Iterator[Text]:
    if notices:
        yield Text("\nlog", "dim")
    for one in reversed(notices):
        sign, style = MARKS.get(one.notice.kind, ("·", "dim"))
        at = time.strftime("%H:%M:%S", time.localtime(one.at))
        yield Text.assemble((at, "dim"), " ", (sign, style), f" {one.notice.words}")


def _more(count: int, noun: str, where: str) -> Iterator[Text]:
    if count > 0:
        yield Text(f"{counted(count, f'more {noun}')}: {where}", "dim")


def spark(shares: Sequence[float]) -> str:
    """Return a bar for each of *shares*, from 0 to 1.

    >>> spark([0.0, 0.5, 1.0])
    '▁▅█'
    """
    return "".join(BARS[min(len(BARS) - 1, int(share * len(BARS)))] for share in shares)
