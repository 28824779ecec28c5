"""The picture of a mesh: workers and readers, or groups of them, and flows to and from jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.explanation.trouble import SILENT
from penstock.protocol.loop_time import ReaderProcess
from penstock_dispatcher.core.stats import IterationStats, ReaderStats, TaskStats, WorkerSummary
from penstock_dispatcher.page.history import Moment
from penstock_dispatcher.page.standing import (
    LOST,
    NO_LOAD,
    SLOW,
    WorkerLoad,
    WorkerStanding,
    load_of,
    standing_of_worker,
)

T = TypeVar("T")

APART = 16
"""The most workers, and readers, that are drawn one by one; more are drawn in groups."""

TASKS_APART = 48
"""The most tasks that are drawn one by one; more are drawn as one flow for a worker and a job."""

JOBS_APART = 8
"""The most passes that are drawn one by one; the others are drawn as one."""

MANY = 0
"""The iteration that stands for the passes that are not drawn one by one."""

WAITS = 0.05
"""A reader whose loop waits for more of its time is drawn as one that waits."""


@dataclass(frozen=True, slots=True)
class WorkerNode:
    """A worker, or *count* workers that are alike. *rate* is elements a second of them together."""

    key: str
    label: str
    count: int
    standing: str
    slots: int
    slots_used: int
    tasks: int
    rate: float
    buffered: int
    median: float | None = None
    """The rate that the median of its peers would reach with its tasks, if it has peers."""
    lost: float | None = None
    """Seconds since the last of them was heard, if they are lost."""
    load: WorkerLoad = NO_LOAD


@dataclass(frozen=True, slots=True)
class ReaderNode:
    """A reader, or *count* readers that are alike; *wait* is the longest of their loops' waits."""

    key: str
    label: str
    count: int
    standing: str
    wait: float
    nbytes: float
    """Bytes a second that come to them."""


@dataclass(frozen=True, slots=True)
class JobNode:
    """A pass that runs, or *count* passes."""

    iteration: int
    label: str
    count: int
    rate: float
    """Elements a second that are acked."""


@dataclass(frozen=True, slots=True)
class TaskFlow:
    """Traffic from a worker to a pass: by one *task*, or by *count* tasks."""

    worker: str
    iteration: int
    task: int | None
    count: int
    rate: float
    nbytes: float
    number: int | None = None
    """The number of the task within its pass, by which people call it."""


@dataclass(frozen=True, slots=True)
class ReaderFlow:
    """Traffic from a pass to a reader, in bytes a second."""

    iteration: int
    reader: str
    nbytes: float


@dataclass(frozen=True, slots=True)
class MeshView:
    """Readers, passes, workers, and traffic; *grouped* names the kinds that are drawn in groups."""

    readers: tuple[ReaderNode, ...]
    jobs: tuple[JobNode, ...]
    workers: tuple[WorkerNode, ...]
    task_flows: tuple[TaskFlow, ...]
    reader_flows: tuple[ReaderFlow, ...]
    grouped: tuple[str, ...]


def mesh_view(moment: Moment) -> MeshView:
    """Return the picture of the mesh at *moment*."""
    running = [it for it in moment.stats.iterations if not it.finished]
    drawn = {it.iteration for it in _drawn(running, moment)}
    workers, worker_keys = _workers(moment)
    readers, reader_keys = _readers(running)
    where = {it.iteration: it.iteration if it.iteration in drawn else MANY for it in running}
    return MeshView(
        readers,
        tuple(_jobs(running, where, moment)),
        workers,
        tuple(_task_flows(running, where, worker_keys, moment)),
        tuple(_reader_flows(running, where, reader_keys)),
        tuple(
            name
            for name, nodes in (("workers", workers), ("readers", readers))
            if any(node.count > 1 for node in nodes)
        ),
    )


def worker_groups(moment: Moment) -> dict[str, list[WorkerSummary]]:
    """Return the workers of each group: by how they are, and by how much they make."""
    groups: dict[str, list[WorkerSummary]] = {}
    for worker in moment.stats.workers:
        groups.setdefault(_group_of(worker, moment), []).append(worker)
    order = {standing.value: i for i, standing in enumerate(WorkerStanding)}
    return dict(sorted(groups.items(), key=lambda one: (order[one[0].partition(",")[0]], one[0])))


def shown_standing(worker: WorkerSummary, moment: Moment) -> str:
    """Return how *worker* is: a live one that is much slower than its peers is slow."""
    standing, pace = standing_of_worker(worker), moment.paces.get(worker.address)
    if standing is WorkerStanding.LIVE and pace is not None and pace.is_slow:
        return SLOW
    return str(standing.value)


def _group_of(worker: WorkerSummary, moment: Moment) -> str:
    standing, rate = standing_of_worker(worker), moment.by_worker.get(worker.address, 0.0)
    pace = moment.paces.get(worker.address)
    if standing is not WorkerStanding.LIVE:
        return str(standing.value)
    if pace is not None and pace.is_slow:
        return "live, slow"
    if not worker.tasks:
        return "live, without a task"
    if rate <= 0:
        return "live, makes nothing"
    return "live, fast" if pace is not None and pace.rate > 2 * pace.median else "live, as usual"


def _workers(moment: Moment) -> tuple[tuple[WorkerNode, ...], dict[str, str]]:
    workers = moment.stats.workers
    if len(workers) <= APART:
        nodes = tuple(
            _worker_node(w.address, w.address, shown_standing(w, moment), [w], moment)
            for w in workers
        )
        lost = tuple(_lost_node(name, name, [heard]) for name, heard in moment.lost.items())
        return (*nodes, *lost[: APART - len(nodes)]), {w.address: w.address for w in workers}
    groups = worker_groups(moment)
    nodes = tuple(
        _worker_node(name, name, _standing_of_group(name), members, moment)
        for name, members in groups.items()
    )
    if moment.lost:
        nodes = (_lost_node(LOST, LOST, list(moment.lost.values())), *nodes)
    return nodes, {w.address: name for name, members in groups.items() for w in members}


def _standing_of_group(name: str) -> str:
    return SLOW if name == "live, slow" else name.partition(",")[0]


def _lost_node(key: str, label: str, heard: Sequence[float]) -> WorkerNode:
    ago = round(min(heard))
    return WorkerNode(key, label, len(heard), LOST, 0, 0, 0, 0.0, 0, lost=ago)


def _worker_node(
    key: str, label: str, standing: str, members: Sequence[WorkerSummary], moment: Moment
) -> WorkerNode:
    return WorkerNode(
        key,
        label,
        len(members),
        standing,
        sum(w.slots for w in members),
        sum(w.slots_used for w in members),
        sum(len(w.tasks) for w in members),
        round(sum(moment.by_worker.get(w.address, 0.0) for w in members), 2),
        sum(buffered(w) for w in members),
        median_of(members, moment),
        load=load_of(members),
    )


def median_of(members: Iterable[WorkerSummary], moment: Moment) -> float | None:
    """Return what the median of their peers would make of the tasks of *members*."""
    known = [moment.paces[w.address].median for w in members if w.address in moment.paces]
    return round(sum(known), 2) if known else None


def buffered(worker: WorkerSummary) -> int:
    """Return the bytes of frames that *worker* has for readers."""
    stats: dict[str, Any] = worker.stats or {}
    return sum(int(one["nbytes"]) for one in stats.get("buffers", ()))


def _readers(
    running: Iterable[IterationStats],
) -> tuple[tuple[ReaderNode, ...], dict[int, str]]:
    known = [(it, one) for it in running for one in it.readers if one.status != "left"]
    apart = len(known) <= APART
    by_job = len({it.job for it, _ in known}) <= JOBS_APART
    groups: dict[str, list[tuple[IterationStats, ReaderStats]]] = {}
    for it, reader in known:
        standing = standing_of_reader(reader)
        key = str(reader.reader) if apart else f"{it.job}, {standing}" if by_job else standing
        groups.setdefault(key, []).append((it, reader))
    nodes = tuple(
        ReaderNode(
            key,
            called(members[0][1].reader, members[0][1].process) if apart else key,
            len(members),
            standing_of_reader(members[0][1]),
            round(max(_wait(one) for _, one in members), 4),
            round(sum(link.rate for _, one in members for link in one.links), 1),
        )
        for key, members in groups.items()
    )
    return nodes, {one.reader: key for key, members in groups.items() for _, one in members}


def called(reader: int, process: ReaderProcess | None) -> str:
    """Return what a reader is called on the page: by its host and rank, if that is known."""
    if process is None:
        return f"reader {reader}"
    which = f"pid {process.pid}" if process.rank is None else f"rank {process.rank}"
    return f"{process.host}, {which}"


def standing_of_reader(reader: ReaderStats) -> str:
    """Return in a word how *reader* is."""
    if reader.status != "live":
        return "died" if reader.status == "expired" else reader.status
    if reader.silent is not None and reader.silent > SILENT:
        return "silent"
    return "waits" if _wait(reader) >= WAITS else "live"


def _wait(reader: ReaderStats) -> float:
    return reader.loop.share if reader.loop is not None else 0.0


def _drawn(running: Sequence[IterationStats], moment: Moment) -> Sequence[IterationStats]:
    if len(running) <= JOBS_APART:
        return running
    busiest = _largest(running, lambda it: moment.samples[it.iteration].elements)
    return busiest[: JOBS_APART - 1]


def _largest(things: Iterable[T], size: Callable[[T], float]) -> list[T]:
    return sorted(things, key=size, reverse=True)


def _jobs(
    running: Iterable[IterationStats], where: dict[int, int], moment: Moment
) -> Iterator[JobNode]:
    others = []
    for it in running:
        if where[it.iteration] == MANY:
            others.append(it)
        else:
            name = it.outline if it.private and it.outline else it.job
            yield JobNode(it.iteration, name, 1, round(moment.samples[it.iteration].elements, 2))
    if others:
        rate = sum(moment.samples[it.iteration].elements for it in others)
        yield JobNode(MANY, f"{len(others)} more jobs", len(others), round(rate, 2))


def _task_flows(
    running: Sequence[IterationStats],
    where: dict[int, int],
    keys: dict[str, str],
    moment: Moment,
) -> Iterator[TaskFlow]:
    going = [(it, t) for it in running for t in it.tasks if t.worker in keys and not t.done]
    nbytes = _bytes_by_task(running, moment)
    if len(going) <= TASKS_APART:
        for it, task in going:
            rate = round(moment.by_task.get(task.task, 0.0), 2)
            size = round(nbytes.get(task.task, 0.0), 1)
            ends = keys[task.worker or ""], where[it.iteration]
            yield TaskFlow(*ends, task.task, 1, rate, size, task.index)
        return
    together: dict[tuple[str, int], list[TaskStats]] = defaultdict(list)
    for it, task in going:
        together[keys[task.worker or ""], where[it.iteration]].append(task)
    for (worker, iteration), tasks in together.items():
        rate = round(sum(moment.by_task.get(t.task, 0.0) for t in tasks), 2)
        size = round(sum(nbytes.get(t.task, 0.0) for t in tasks), 1)
        yield TaskFlow(worker, iteration, None, len(tasks), rate, size)


def _bytes_by_task(running: Iterable[IterationStats], moment: Moment) -> dict[int, float]:
    """Return the bytes a second of each task: its part, by elements, of what its worker sends."""
    out = {}
    for it in running:
        sent: dict[str, float] = defaultdict(float)
        for reader in it.readers:
            for link in reader.links:
                sent[link.worker] += link.rate
        made: dict[str, float] = defaultdict(float)
        going = [task for task in it.tasks if task.worker is not None and not task.done]
        for task in going:
            made[task.worker or ""] += moment.by_task.get(task.task, 0.0)
        for task in going:
            whole = made[task.worker or ""]
            part = moment.by_task.get(task.task, 0.0) / whole if whole else 0.0
            out[task.task] = part * sent[task.worker or ""]
    return out


def _reader_flows(
    running: Iterable[IterationStats], where: dict[int, int], keys: dict[int, str]
) -> Iterator[ReaderFlow]:
    together: dict[tuple[int, str], float] = defaultdict(float)
    for it in running:
        for reader in it.readers:
            if reader.reader in keys:
                flow = where[it.iteration], keys[reader.reader]
                together[flow] += sum(link.rate for link in reader.links)
    for (iteration, reader_key), nbytes in together.items():
        yield ReaderFlow(iteration, reader_key, round(nbytes, 1))
