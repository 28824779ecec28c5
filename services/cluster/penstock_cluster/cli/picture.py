"""How a cluster looks on a screen: what runs first, what is over in a line each."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.credentials.entrance import Security
from penstock.explanation.looks import MeshLook
from penstock.explanation.trouble import SILENT, Trouble
from penstock.explanation.verdict import Bottleneck, explain_job
from penstock.protocol.nearness import GRPC
from penstock.protocol.types import Codec, Versions
from penstock_cluster.cli.grid import Give, Grid, GridColumn
from penstock_cluster.cli.words import counted, spoken
from penstock_cluster.cli.workers import workers_table
from penstock_dispatcher.core.stats import (
    DispatcherStats,
    ForgottenStats,
    IterationStats,
    ReaderStats,
    RegistrationStats,
)

FINISHED_SHOWN = 5
"""The most finished passes that have a line of their own, the newest."""


REGISTERED_SHOWN = 20
"""The most registered datasets that have a line, the newest."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of the cluster of *target*: *at* in monotonic seconds, *date* since 1970."""

    target: str
    at: float
    date: float
    stats: DispatcherStats
    mesh: MeshLook = field(default_factory=MeshLook)
    """What is known of the passes that run, as far as it says what is slow or wrong."""


MOST_NAMED = 8
"""So many of those that hold up the others are named."""


def picture(now: Look) -> RenderableType:
    """Return tables of the workers, and of each pass."""
    stats = now.stats
    running = [it for it in stats.iterations if not it.finished]
    finished = [it for it in stats.iterations if it.finished]
    return Group(
        _head(now, len(running), len(finished)),
        *_trouble(now.mesh.trouble),
        workers_table(stats.workers, stats.versions) if stats.workers else _no_worker(),
        *(part for it in running for part in _pass(it, now)),
        *_finished(finished, now.target),
        *_registrations(stats.registrations),
        *_forgotten(now),
    )


def jobs_table(now: Look) -> RenderableType:
    """Return a table with a line for each pass."""
    columns = (
        GridColumn("job"),
        GridColumn("pipeline", Give.WRAP),
        GridColumn("repetition", Give.LEAVE, "right"),
        GridColumn("mode", Give.LEAVE),
        GridColumn("state"),
        GridColumn("readers", Give.LEAVE, "right"),
        GridColumn("tasks", Give.LEAVE, "right"),
        GridColumn("acked", justify="right"),
    )
    rows = [_job_row(it, now) for it in now.stats.iterations]
    return Grid(columns, rows + [_forgotten_row(was) for was in now.stats.forgotten])


def state_of(it: IterationStats, now: Look) -> str:
    """Return how a pass is doing, in a few words."""
    if it.finished:
        return "finished"
    state = "failed" if any(task.failure for task in it.tasks) else "running"
    if it.unread is None:
        return f"restored, {state}" if it.restored else state
    since = time.strftime("%H:%M:%S", time.localtime(now.date - it.unread))
    unread = f"no reader since {since}"
    return f"failed, {unread}" if state == "failed" else unread


def _job_row(it: IterationStats, now: Look) -> list[str]:
    return [
        "anonymous" if it.private else it.job,
        it.outline,
        str(it.repetition),
        it.mode,
        state_of(it, now),
        str(it.live_readers),
        str(len(it.tasks)),
        f"{it.account.acked:,}",
    ]


def forgotten_state(was: ForgottenStats) -> str:
    """Return how a pass ended that was deleted."""
    return "failed, forgotten" if was.failed else "unfinished, forgotten"


def _forgotten_row(was: ForgottenStats) -> list[str]:
    about = [was.job, was.outline, str(was.repetition), was.mode, forgotten_state(was)]
    return [*about, "0", "0", f"{was.acked:,}"]


def _head(now: Look, running: int, finished: int) -> Text:
    stats = now.stats
    speaks = f"  {spoken(stats.versions)}" if stats.versions is not None else ""
    return Text.assemble(
        (now.target, "bold"),
        f"{speaks}  {counted(len(stats.workers), 'worker')}, "
        f"{counted(running, 'pass', 'passes')} running, {finished} finished",
        ("  insecure: whoever can connect may run code" if _is_open(stats) else "", "red"),
        (_opened(stats), "yellow"),
    )


def _is_open(stats: DispatcherStats) -> bool:
    return stats.security == Security.INSECURE.value


def _opened(stats: DispatcherStats) -> str:
    """Return what can be read without credentials, if something can."""
    opened = stats.tensorflow
    if opened is None or not opened.address:
        return ""
    return f"  without credentials, at {opened.address}: {', '.join(opened.datasets)}"


def _trouble(found: Trouble | None) -> Iterator[Text]:
    """Yield the worst that is wrong: nothing else is read before it."""
    if found is not None:
        yield Text(found.sentence, "bold red")


def _no_worker() -> Text:
    return Text("no worker is registered", "yellow")


def _explained(it: IterationStats, now: Look) -> Iterator[RenderableType]:
    """Yield what limits the loops of a pass, if any of them has said how long it waits."""
    found = (look for look in now.mesh.jobs if look.iteration == it.iteration)
    for look in found:
        explanation = explain_job(look)
        if explanation.limit is not Bottleneck.UNKNOWN:
            yield Text(explanation.sentence)


def _pass(it: IterationStats, now: Look) -> Iterator[RenderableType]:
    yield Text(f"\n{it.job}, repetition {it.repetition}, {it.mode}: {state_of(it, now)}", "bold")
    if it.outline:
        yield Text(it.outline, "dim")
    if it.waiting_for:
        yield Text(f"waits for {it.waiting_for}", "yellow")
    if it.held_by:
        yield Text(it.held_by, "yellow")
    yield from _explained(it, now)
    yield from _compression(it, now)
    yield from _tasks(it)
    yield from _readers(it.readers, now.stats.versions)
    account = it.account
    yield Text(
        f"produced {account.produced:,}, replayed {account.replayed:,}, acked {account.acked:,}, "
        f"consumed {account.consumed:,}, redelivered {account.redelivered:,} of "
        f"{account.in_doubt:,} in doubt, requeued {account.requeued:,}, "
        f"skipped {account.skipped:,}, nondeterministic {account.nondeterministic:,}"
    )
    yield from _errors(it)
    yield from _rounds(it)
    yield from _trainers(it)


def _errors(it: IterationStats) -> Iterator[Text]:
    """Yield how many elements were left out as they could not be made, and what the first said."""
    if it.account.errors:
        first = next((str(letter.get("message", "")) for letter in it.dead_letters), "")
        said = f"; the first: {first.partition(chr(10))[0]}" if first else ""
        yield Text(f"left out {counted(it.account.errors, 'error')}{said}", "yellow")


def _compression(it: IterationStats, now: Look) -> Iterator[Text]:
    """Yield what frames are compressed with; several lines where AUTO means several things."""
    tasks = {task.task for task in it.tasks if not task.done}
    said: dict[str, list[str]] = {}
    for worker in now.stats.workers:
        for run in (worker.stats or {}).get("tasks", ()):
            how = run.get("compression", "")
            if run["task"] in tasks and how not in ("", Codec.NONE.value):
                said.setdefault(how.partition(" (")[0], []).append(how)
    for hows in said.values():
        whose = f"of {counted(len(hows), 'task')} " if len(said) > 1 else ""
        yield Text(f"compression {whose}{hows[0]}")


def _rounds(it: IterationStats) -> Iterator[Text]:
    """Yield how far consumers of coordinated reads are, and which holds up the others."""
    rounds = it.rounds
    if rounds is None:
        return
    at = [one.taken for one in rounds.consumers]
    ends = "" if rounds.last is None else f", {rounds.last:,} in all"
    yield Text(
        f"read in rounds by {counted(len(at), 'consumer')}: {rounds.released:,} released{ends}, "
        f"{rounds.floor:,} taken by all"
    )
    behind = [str(one.index) for one in rounds.consumers if one.taken == min(at)]
    if max(at) > min(at):
        few = ", ".join(behind[:MOST_NAMED]) + ", ..." * (len(behind) > MOST_NAMED)
        yield Text(f"the first is at round {max(at):,}, the last at {min(at):,}: consumer {few}")
    for one in rounds.consumers:
        if one.lost:
            yield Text(f"lost: {one.lost}", "red")


def _trainers(it: IterationStats) -> Iterator[RenderableType]:
    if it.cache is None:
        return
    yield Text(
        f"shared by {counted(len(it.account.trainers), 'trainer')}: made {it.cache.made:,}, sent "
        f"{it.cache.sent:,}, each {it.cache.hit_rate:.2f} times; when_full={it.cache.when_full!r}"
    )
    columns = (
        GridColumn("trainer"),
        *(
            GridColumn(name, Give.LEAVE, "right")
            for name in ("acked", "consumed", "skipped", "before")
        ),
        GridColumn("state"),
    )
    rows = (
        (
            one.trainer,
            *(f"{count:,}" for count in (one.acked, one.consumed, one.skipped, one.before)),
            "done" if one.done else "reads",
        )
        for one in it.account.trainers
    )
    yield Grid(columns, rows)


def _tasks(it: IterationStats) -> Iterator[RenderableType]:
    columns = (
        GridColumn("task"),
        GridColumn("worker"),
        GridColumn("produced", Give.LEAVE, "right"),
        GridColumn("acked", Give.LEAVE, "right"),
        GridColumn("attempt", Give.LEAVE, "right"),
        GridColumn("splits", Give.LEAVE, "right"),
    )
    going = [task for task in it.tasks if not task.done]
    if going:
        rows = (
            (
                str(task.task),
                "failed" if task.failure else task.worker or "waits for a worker",
                f"{task.head:,}",
                f"{task.acked:,}",
                str(task.attempt),
                f"{task.splits:,}",
            )
            for task in going
        )
        yield Grid(columns, rows)
    if len(going) < len(it.tasks):
        yield Text(f"{counted(len(it.tasks) - len(going), 'task')} done")
    failures = [task.failure for task in going if task.failure]
    if failures:
        more = f" (and {counted(len(failures) - 1, 'task')} more)" if len(failures) > 1 else ""
        said = failures[0].strip().partition("\n")[0].strip()  # the traceback is in --json
        yield Text(f"{said}{more}", "red")


def _readers(readers: Iterable[ReaderStats], mine: Versions | None) -> Iterator[Text]:
    left = [reader for reader in readers if reader.status == "left"]
    for reader in readers:
        if reader.status != "left":
            yield _reader(reader, mine)
    if left:
        handed = sum(reader.consumed for reader in left)
        yield Text(f"readers that have left: {len(left)}, with {counted(handed, 'element')}")


def _reader(reader: ReaderStats, mine: Versions | None) -> Text:
    process = reader.process
    about = []
    if process is not None and mine is not None and process.penstock:
        speaks = f"penstock {process.penstock}, Python {process.python}"
        about += [speaks] if speaks != spoken(mine) else []
    name = reader_name(reader, *about)
    elements = counted(reader.consumed, "element")
    if reader.status != "live":
        return Text(f"{name}: expired, {elements}", "yellow")
    if reader.silent is not None and reader.silent > SILENT:
        return Text(f"{name}: silent for {reader.silent:.1f} s, {elements}", "yellow")
    return Text(f"{name}: live, {elements}{_transports(reader)}")


def reader_name(reader: ReaderStats, *more: str) -> str:
    """Return what a reader is called: by its number, its process, and what *more* there is."""
    about = (*([] if reader.process is None else [str(reader.process)]), *more)
    return f"reader {reader.reader}" + (f" ({'; '.join(about)})" if about else "")


def _transports(reader: ReaderStats) -> str:
    """Return how a reader reads, unless all comes by gRPC."""
    if not reader.transports.keys() - {GRPC}:
        return ""
    parts = (f"{counted(count, 'worker')} by {name}" for name, count in reader.transports.items())
    return f", from {', '.join(parts)}"


def _finished(passes: list[IterationStats], target: str) -> Iterator[Text]:
    if passes:
        yield Text("\nfinished", "bold")
    for it in passes[-FINISHED_SHOWN:]:
        pipeline = f" ({it.outline})" if it.private and it.outline else ""
        yield Text(
            f"{it.job}{pipeline}, repetition {it.repetition}: "
            f"{counted(it.account.acked, 'element')} acked by {counted(len(it.readers), 'reader')}"
        )
    if len(passes) > FINISHED_SHOWN:
        yield Text(f"{len(passes) - FINISHED_SHOWN} more: penstock jobs {target}")
    for it in passes:
        for fault in it.faults:
            name = f"{it.job}, repetition {it.repetition}"
            yield Text(f"{name}: the account does not balance: {fault}", "red")


def _registrations(known: tuple[RegistrationStats, ...]) -> Iterator[RenderableType]:
    if not known:
        return
    yield Text("\nregistered datasets", "bold")
    columns = (
        GridColumn("dataset_id"),
        GridColumn("fingerprint"),
        GridColumn("compression", Give.LEAVE),
        GridColumn("read by jobs", Give.WRAP),
    )
    rows = [
        (one.dataset_id, one.dataset, one.compression, ", ".join(one.jobs))
        for one in known[-REGISTERED_SHOWN:]
    ]
    yield Grid(columns, rows)
    if len(known) > REGISTERED_SHOWN:
        yield Text(f"{len(known) - REGISTERED_SHOWN} more: penstock status --json")


def _forgotten(now: Look) -> Iterator[Text]:
    if now.stats.forgotten:
        passes = counted(len(now.stats.forgotten), "pass was", "passes were")
        yield Text(f"{passes} forgotten unfinished: penstock jobs {now.target}")
