"""The metrics of a dispatcher, from counters that it keeps anyway.

Metrics by job have at most `sampler.MOST_JOBS` jobs, those without a name together, and all
others together. Nothing is by task, worker or reader: a worker has metrics of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from penstock.credentials.entrance import Entrance
from penstock.protocol.measures import LARGEST, MADE, MEAN, PADDING, POSITIONS
from penstock.protocol.recording import SaveStage
from penstock.runtime.clock import now
from penstock.runtime.versions import versions
from penstock.web.metrics import (
    certificate_end,
    counter,
    counters,
    gauge,
    gauges,
    histograms,
    of_every_service,
)
from penstock_dispatcher.core.counting import LOST
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.service import DispatcherService
from penstock_dispatcher.web.sampler import CountKey, JobNow, OperatorCount, Sampler

ELEMENTS: tuple[tuple[str, str, str], ...] = (
    ("elements", "elements", "Different elements of all passes, counted when first produced"),
    ("produced", "elements_produced", "Elements produced, including elements produced again"),
    ("replayed", "elements_replayed", "Elements produced again because a process died"),
    ("sent", "elements_sent", "Elements sent to readers"),
    ("requeued", "elements_requeued", "Elements that readers returned unused"),
    ("acked", "elements_acked", "Elements that training loops have taken and acknowledged"),
    (
        "consumed",
        "elements_consumed",
        "Elements handed to training loops, including redelivered elements",
    ),
    ("redelivered", "elements_redelivered", "Elements handed to training loops a second time"),
    (
        "in_doubt",
        "elements_in_doubt",
        "Elements requeued although a lost reader may have used them",
    ),
    ("skipped", "elements_skipped", "Elements that pipelines skipped on purpose"),
    ("errors", "element_errors", "Elements skipped because a function raised an error"),
    ("lost", "elements_lost", "Elements that nondeterministic pipelines may have lost"),
    ("splits", "splits", "Splits handed to tasks"),
)
"""The counts of `sampler.COUNTED`, and their metrics."""

OF_A_JOB: tuple[tuple[str, str], ...] = (
    ("iterations", "Running passes"),
    ("readers", "Live readers"),
    ("iterations_unread", "Running passes without readers"),
    (
        "iterations_unbalanced",
        "Finished passes whose element counts do not add up, which is a fault of Penstock",
    ),
    ("readers_lost", "Readers that died and were not replaced"),
    (
        "wait_ratio",
        "Share of the last ten seconds that training loops waited; absent if no reader reports",
    ),
    (
        "longest_wait",
        "Seconds that a training loop has waited so far for its next element, the longest",
    ),
)
"""Fields of `JobNow`, and what their metrics say."""

UNITS = {"longest_wait": "longest_wait_seconds"}
"""Fields of `JobNow` whose metrics have another name, with their unit."""

COUNTS: tuple[tuple[str, str, str], ...] = (
    ("facts", "facts", "Decisions written to the journal"),
    ("opened", "iterations_opened", "Opened passes"),
    ("workers_lost", "workers_lost", "Workers that died or were silent for too long"),
    ("readers_expired", "readers_expired", "Readers that were silent for too long"),
    ("tasks_moved", "tasks_moved", "Restarts of tasks, mostly on another worker"),
    ("split_requests", "split_requests", "Requests of tasks for splits"),
    ("saves_failed", "saves_failed", "Saves that stopped at an error"),
    ("saved_elements", "saved_elements", "Elements of saves that readers can read"),
    ("saved_chunks", "saved_chunks", "Finished chunks of saves"),
    ("saved_bytes", "saved_bytes", "Bytes of the files of saves"),
)
"""Fields of `Counts`, and their metrics."""

MEASURES: tuple[tuple[str, str, str], ...] = (
    (MADE, "operator_made", "Tokens, bytes or elements that an operator made, by unit"),
    (POSITIONS, "operator_positions", "Entries of padded packs and batches"),
    (PADDING, "operator_padding", "Entries of padded packs and batches that are padding"),
    (LARGEST, "operator_largest_cost", "Sum of the largest cost of each round of balance"),
    (MEAN, "operator_mean_cost", "Sum of the mean cost of each round of balance"),
)
"""Measures of operators, and their metrics."""

RATIOS: tuple[tuple[str, str, str, str], ...] = (
    (
        "padding_ratio",
        PADDING,
        POSITIONS,
        "Share of entries of packs and batches that is padding",
    ),
    ("imbalance_ratio", LARGEST, MEAN, "Mean of the largest costs of rounds over the mean cost"),
)
"""Metrics that are one measure divided by another."""

WORKER_STATES = ("live", "silent", "draining", "disconnected")
SAVE_STAGES = (SaveStage.OPEN, SaveStage.COMPLETE, SaveStage.FAILED, SaveStage.CANCELLED)

PEERS, JOB, SOURCE = ["peer"], ["job_name"], ["job_name", "source"]
OPERATOR = ["job_name", "operator", "unit"]


class DispatcherMetrics:
    """The metrics of *dispatcher*; metrics by job are from the newest look of *sampler*."""

    def __init__(self, dispatcher: DispatcherService, entrance: Entrance, sampler: Sampler) -> None:
        self._dispatcher, self._entrance, self._sampler = dispatcher, entrance, sampler

    def __call__(self) -> Iterable[Metric]:
        """Yield them."""
        entrance = self._entrance
        yield from of_every_service(versions(), entrance.security.value, entrance.calls)
        yield from certificate_end(entrance)
        yield from self._of_peers()
        yield from _of_jobs(self._sampler.sample.jobs)
        by_job = self._sampler.totals.by_job()
        yield from _of_elements(by_job)
        yield from of_operators(by_job)
        yield from self._of_saves()
        yield from self._of_decisions()
        yield from self._of_journal()

    def _of_peers(self) -> Iterable[Metric]:
        core, sample = self._dispatcher.core, self._sampler.sample
        soft = core.ctx.soft_state
        states = worker_states(core, now())
        yield gauges(
            "penstock_workers",
            "Workers by state; a lost worker is disconnected for 15 minutes, or until it returns",
            ["state"],
            (((state,), states[state]) for state in WORKER_STATES),
        )
        for name, text, value in (
            ("worker_slots", "Slots of all workers", sample.slots),
            ("worker_slots_used", "Slots that run a task", sample.slots_used),
            ("tasks", "Unfinished tasks of running passes", sample.tasks),
            ("tasks_waiting", "Unfinished tasks that no worker runs", sample.waiting_tasks),
            ("datasets", "Registered datasets", len(core.state.datasets)),
            ("jobs", "Jobs that the dispatcher knows", len(core.state.jobs)),
            ("silent_readers", "Readers that have not reported lately", len(soft.silent)),
            ("silent_workers", "Workers that have not reported lately", len(soft.quiet)),
        ):
            yield gauge(f"penstock_{name}", text, value)

    def _of_saves(self) -> Iterable[Metric]:
        stages = Counter(one.stage for one in self._dispatcher.core.state.recordings.values())
        yield gauges(
            "penstock_saves",
            "Saves of workers by stage; of those that ended, the newest 100",
            ["stage"],
            (((stage.value,), stages[stage]) for stage in SAVE_STAGES),
        )

    def _of_decisions(self) -> Iterable[Metric]:
        counts = self._dispatcher.core.ctx.counts
        for field, name, text in COUNTS:
            yield counter(f"penstock_{name}", text, getattr(counts, field))
        yield counters(
            "penstock_heartbeats",
            "Heartbeats received",
            PEERS,
            [(("worker",), counts.worker_heartbeats), (("reader",), counts.reader_heartbeats)],
        )
        yield histograms(
            "penstock_decision_seconds",
            "Time to decide, by kind of event",
            ["event"],
            (((name,), took) for name, took in self._dispatcher.decisions.by_event.items()),
        )

    def _of_journal(self) -> Iterable[Metric]:
        journal = self._dispatcher.journal
        yield histograms(
            "penstock_journal_write_seconds",
            "Time of a journal transaction until it is durable",
            [],
            [((), journal.writes)],
        )
        yield gauge(
            "penstock_journal_blocked",
            "1 while the dispatcher decides nothing because the journal is full or slow",
            journal.blocked or bool(journal.halted),
        )


def worker_states(core: DispatcherCore, at: float) -> Counter[str]:
    """Return how many workers *core* has in each of `WORKER_STATES`, *at* that time."""
    soft = core.ctx.soft_state
    states = Counter(
        "draining"
        if one.leaving
        else "disconnected"
        if not one.connected
        else "silent"
        if name in soft.quiet
        else "live"
        for name, one in soft.workers.items()
        if name in core.state.workers
    )
    states["disconnected"] += sum(at - heard <= LOST for heard in soft.lost.values())
    return states


def _of_jobs(jobs: dict[str, JobNow]) -> Iterable[Metric]:
    for field, text in OF_A_JOB:
        known = ((job, getattr(one, field)) for job, one in jobs.items())
        values = (((job,), float(value)) for job, value in known if value is not None)
        yield gauges(f"penstock_{UNITS.get(field, field)}", text, JOB, values)
    sources = [(job, *each) for job, one in jobs.items() for each in one.sources.items()]
    yield gauges(
        "penstock_mixture_wanted_ratio",
        "Share of the turns of a mixture that a source has by the weights that hold now",
        SOURCE,
        (((job, source), wanted) for job, source, (wanted, _) in sources),
    )
    yield gauges(
        "penstock_mixture_elements",
        "Elements of a mixture's source that tasks were given in the running pass",
        SOURCE,
        (((job, source), float(handed)) for job, source, (_, handed) in sources),
    )
    ratios = [one.wait_ratio for one in jobs.values()]
    worst = max((one for one in ratios if one is not None), default=None)
    if worst is None and not any(one.readers for one in jobs.values()):
        worst = 0.0  # without readers, none waits
    yield gauges(
        "penstock_worst_wait_ratio",
        "The largest wait ratio of all jobs; 0 without readers, absent if no reader reports",
        [],
        [] if worst is None else [((), worst)],
    )


def _of_elements(by_job: dict[str, Counter[CountKey]]) -> Iterable[Metric]:
    for field, name, text in ELEMENTS:
        values = (((job,), counts[field]) for job, counts in by_job.items())
        yield counters(f"penstock_{name}", text, JOB, values)


def of_operators(by_job: dict[str, Counter[CountKey]]) -> Iterable[Metric]:
    """Yield the sums that operators counted in all passes of a job since the process began."""
    known = {
        (job, key): float(count)
        for job, counts in by_job.items()
        for key, count in counts.items()
        if isinstance(key, OperatorCount)
    }
    for name, metric, text in MEASURES:
        values = (
            ((job, key.operator, key.unit), count)
            for (job, key), count in known.items()
            if key.name == name
        )
        yield counters(f"penstock_{metric}", text, OPERATOR, values)
    for metric, part, whole, text in RATIOS:
        ratios = (
            ((job, key.operator), known.get((job, key._replace(name=part)), 0.0) / count)
            for (job, key), count in known.items()
            if key.name == whole and count
        )
        yield gauges(f"penstock_{metric}", text, OPERATOR[:2], ratios)
