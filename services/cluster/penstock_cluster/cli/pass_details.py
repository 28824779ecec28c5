"""All details of a running pass: the reason why it waits, its tasks, readers and account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from penstock.explanation.trouble import SILENT, counted
from penstock.explanation.verdict import Bottleneck, explain_job
from penstock.protocol.nearness import GRPC
from penstock.protocol.types import Codec, Versions
from penstock_cluster.cli.grid import Grid, more_of, spoken
from penstock_cluster.cli.look import Look, state_of
from penstock_cluster.cli.mixture_details import mixture_details
from penstock_dispatcher.core.stats import IterationStats, ReaderStats, TaskStats

MOST_NAMED = 8
"""How many of the consumers that hold up the others are named."""


def _explained(it: IterationStats, now: Look) -> Iterator[RenderableType]:
    """Yield the limit of a pass's training loops, if one has reported how long it waits."""
    found = (look for look in now.mesh.jobs if look.iteration == it.iteration)
    for look in found:
        explanation = explain_job(look)
        if explanation.limit is not Bottleneck.UNKNOWN:
            yield Text(explanation.sentence)


def pass_details(it: IterationStats, now: Look, most: int | None) -> Iterator[RenderableType]:
    """Yield all details of the pass *it*, with at most *most* tasks and *most* readers."""
    yield Text(f"\n{it.job}, repetition {it.repetition}, {it.mode}: {state_of(it, now)}", "bold")
    if it.outline:
        yield Text(it.outline, "dim")
    if it.waiting_for:
        yield Text(f"waits for {it.waiting_for}", "yellow")
    if it.held_by:
        yield Text(it.held_by, "yellow")
    yield from _explained(it, now)
    yield from _compression(it, now)
    yield from _tasks(it, most)
    yield from _readers(it.readers, now.stats.versions, most)
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
    yield from mixture_details(it)
    yield from (Text(str(figures)) for figures in it.figures)


def _errors(it: IterationStats) -> Iterator[Text]:
    """Yield how many failed elements were left out, and the errors of the first."""
    if it.account.errors:
        first = next((str(letter.get("message", "")) for letter in it.dead_letters), "")
        said = f"; the first: {first.partition(chr(10))[0]}" if first else ""
        yield Text(f"left out {counted(it.account.errors, 'error')}{said}", "yellow")


def _compression(it: IterationStats, now: Look) -> Iterator[Text]:
    """Yield the codec of frames, in several lines if AUTO chose several."""
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
        "trainer",
        *(f"{name}->" for name in ("acked", "consumed", "skipped", "before")),
        "state",
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


def _tasks(it: IterationStats, most: int | None) -> Iterator[RenderableType]:
    columns = ("task", "worker", "produced->", "acked->", "attempt->", "splits->")
    going = [task for task in it.tasks if not task.done]
    shown = sorted(going, key=_goes_well)[:most]
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
            for task in shown
        )
        yield Grid(columns, rows)
        yield from more_of(len(going) - len(shown), "task")
    if len(going) < len(it.tasks):
        yield Text(f"{counted(len(it.tasks) - len(going), 'task')} done")
    failures = [task.failure for task in going if task.failure]
    if failures:
        more = f" (and {counted(len(failures) - 1, 'task')} more)" if len(failures) > 1 else ""
        said = failures[0].strip().partition("\n")[0].strip()  # the traceback is in --json
        yield Text(f"{said}{more}", "red")


def _goes_well(task: TaskStats) -> int:
    return 0 if task.failure else 1 if task.worker is None else 2


def _readers(
    readers: Iterable[ReaderStats], mine: Versions | None, most: int | None
) -> Iterator[Text]:
    left = [reader for reader in readers if reader.status == "left"]
    here = [reader for reader in readers if reader.status != "left"]
    if most is not None:
        here.sort(key=_is_heard)
    for reader in here[:most]:
        yield _reader(reader, mine)
    yield from more_of(0 if most is None else len(here) - most, "reader")
    if left:
        handed = sum(reader.consumed for reader in left)
        yield Text(f"readers that have left: {len(left)}, with {counted(handed, 'element')}")


def _is_heard(reader: ReaderStats) -> bool:
    return reader.status == "live" and (reader.silent is None or reader.silent <= SILENT)


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
    if not _is_heard(reader):
        return Text(f"{name}: silent for {reader.silent:.1f} s, {elements}", "yellow")
    return Text(f"{name}: live, {elements}{_transports(reader)}")


def reader_name(reader: ReaderStats, *more: str) -> str:
    """Return a reader's name: its number, its process, and *more*."""
    about = (*([] if reader.process is None else [str(reader.process)]), *more)
    return f"reader {reader.reader}" + (f" ({'; '.join(about)})" if about else "")


def _transports(reader: ReaderStats) -> str:
    """Return a reader's transports, or an empty text if all is gRPC."""
    if not reader.transports.keys() - {GRPC}:
        return ""
    parts = (f"{counted(count, 'worker')} by {name}" for name, count in reader.transports.items())
    return f", from {', '.join(parts)}"
