"""Check what arrives at a dispatcher before anything is decided: names, ranges, versions.

How large whole messages may be is checked by the wire, by kind; see `penstock.wire.dispatcher`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.errors import DefinitionTooLarge, Refused
from penstock.protocol.calls import OpenIterationRequest, Registration
from penstock.protocol.control import ReaderHeartbeat, WorkerEvent
from penstock.protocol.control import WorkerHeartbeat as Beat
from penstock.protocol.loop_time import LoopTime
from penstock.protocol.measures import MOST, Measure
from penstock.protocol.names import check_name, fault_of_id, printable
from penstock.protocol.nearness import MOST_SLOTS, MOST_WORDS, WorkerProfile
from penstock.protocol.recording import RecordingReport
from penstock.protocol.rounds import RoundsReport
from penstock.protocol.types import Versions

MOST_HELD = 1 << 16
"""The most tasks that a consumer may report."""

MOST_SOURCES = 1 << 16
"""The most sources of a mixture."""

MOST_RECORDINGS = 1 << 11
"""The most saves that a worker may report on."""

MOST_SPEC = 1 << 18
"""The most bytes of what elements look like."""

MOST_STATS = 1 << 20
"""The most bytes of a worker's stats."""


def check_versions(who: str, versions: Versions) -> None:
    """Refuse versions that are no names.

    Raises:
        Refused: naming the fault.
    """
    for part in (versions.python, versions.penstock):
        check_name(f"a version of {who}", part)


def check_definition(definition: bytes, most: int) -> None:
    """Refuse a definition of more than *most* bytes.

    Raises:
        DefinitionTooLarge: with the way out.
    """
    if len(definition) > most:
        raise DefinitionTooLarge(
            f"the pipeline takes {len(definition)} bytes, and the dispatcher takes {most}: keep "
            "large data in files, and read these in the pipeline; or start the dispatcher with a "
            "larger limit max_definition_bytes"
        )


def check_registration(registration: Registration) -> None:
    """Refuse requests that no client of ours sends; raises as `check_versions` does."""
    if registration.dataset_id:
        check_dataset_id(registration.dataset_id)
    if len(registration.element_spec) > MOST_SPEC:
        raise Refused(
            f"the element spec takes {len(registration.element_spec)} bytes, and may take "
            f"{MOST_SPEC}: register the dataset with element_spec=None"
        )


def check_dataset_id(dataset_id: str) -> None:
    """Refuse ids that are malformed; raises as `check_versions` does."""
    if fault := fault_of_id(dataset_id):
        raise Refused(f"dataset_id {fault}")


def check_opening(request: OpenIterationRequest) -> None:
    """Refuse names that are too long; raises as `check_versions` does."""
    check_versions("the client", request.versions)
    asked = request.parameters
    for what, text in (
        ("dataset", asked.dataset),
        ("dataset_id", asked.dataset_id),
        ("job_name", request.job_name),
        ("trainer", request.trainer),
        ("when_full", asked.when_full),
    ):
        if text is not None:
            check_name(what, text)


def check_weights(job_name: str, weights: Mapping[str, float]) -> None:
    """Refuse names that are too long, and too many; raises as `check_versions` does."""
    check_name("job_name", job_name)
    if len(weights) > MOST_SOURCES:
        raise Refused(f"weights has {len(weights)} sources; a mixture has at most {MOST_SOURCES}")
    for source in weights:
        check_name("the name of a source", source)


def check_worker_event(event: WorkerEvent) -> None:
    """Refuse a worker that is no address, or sends too much; raises as `check_versions` does."""
    check_name("a worker's address", event.worker)
    if not event.worker.isprintable() or not event.worker.strip():
        raise Refused(f"'{printable(event.worker)}' is no address of a worker")
    if isinstance(event, Beat):
        if event.versions is not None:
            check_versions("a worker", event.versions)
        if event.profile is not None:
            _check_profile(event.worker, event.profile)
        for progress in event.progress.values():
            if progress.counts.measures:
                _check_measures(event.worker, progress.counts.measures)
        _check_recordings(event.worker, event.recordings)
        if len(event.stats) > MOST_STATS:
            raise Refused(
                f"worker {event.worker} sends {len(event.stats)} bytes of statistics, and at "
                f"most {MOST_STATS} are read: it is no Penstock worker, or of another version"
            )


def _check_recordings(worker: str, reports: tuple[RecordingReport, ...]) -> None:
    """Refuse reports on more saves than a worker hosts, and numbers that no saved dataset has."""
    if len(reports) > MOST_RECORDINGS:
        raise Refused(
            f"worker {worker} reports on {len(reports)} saves, and at most {MOST_RECORDINGS} are "
            "read"
        )
    for report in reports:
        check_name(f"a save of worker {worker}", report.save_id)
        has = report.progress
        if min(has.version, has.elements, has.chunks, has.nbytes, report.attempt) < 0:
            raise Refused(f"worker {worker} reports a number below 0 of save {report.save_id}")


def _check_measures(worker: str, measures: tuple[Measure, ...]) -> None:
    """Refuse measures that are no numbers, and too many: they are added up, kept and shown."""
    if len(measures) > MOST or not all(0 <= each.sum < math.inf for each in measures):
        raise Refused(
            f"worker {worker} reports {len(measures)} measures of a task: at most {MOST} are kept, "
            "and each is a number of at least 0"
        )
    for each in measures:
        for text in each.key:
            check_name(f"a measure of worker {worker}", text)


def _check_profile(worker: str, profile: WorkerProfile) -> None:
    """Refuse tags and transports that are no words, or too many."""
    words = (*profile.tags, *profile.transports)
    places = (profile.host, profile.boot_id, profile.shm_socket, profile.tensorflow)
    for word in (*places, profile.shm_token, profile.data_token, *words):
        check_name(f"what worker {worker} says of itself", word)
    if len(words) > MOST_WORDS or not all(words):
        raise Refused(
            f"worker {worker} has {len(words)} tags and transports: they may be {MOST_WORDS}, and "
            "none of them empty"
        )
    if not 0 <= profile.data_port < 1 << 16:
        raise Refused(f"worker {worker} has data_port {profile.data_port}, which is no port")
    if not 0 <= profile.slots <= MOST_SLOTS:
        raise Refused(f"worker {worker} has {profile.slots} slots: at most {MOST_SLOTS} are used")


def check_heartbeat(heartbeat: ReaderHeartbeat) -> None:
    """Refuse names and labels that are too long; raises as `check_versions` does."""
    check_name("a reader's token", heartbeat.session)
    check_name("a reader's trainer", heartbeat.trainer)
    if heartbeat.barrier is not None:
        check_name("the label of a save", heartbeat.barrier.label)
    for text in (*heartbeat.in_process, *heartbeat.transports):
        check_name("how a reader reads", text)
    if heartbeat.loop is not None:
        check_name("what a loop waits for", heartbeat.loop.waits_for)
        check_name("the slowest operator of a loop", heartbeat.loop.slowest_here)
        _check_loop(heartbeat.loop)
    if heartbeat.rounds is not None:
        _check_rounds(heartbeat.rounds)
    if heartbeat.process is not None:
        where = heartbeat.process
        for text in (where.host, where.python, where.penstock):
            check_name("where a reader runs", text)


def _check_loop(loop: LoopTime) -> None:
    """Refuse figures that are no numbers: they are added up with those of others, and shown."""
    seconds = loop.seconds + loop.waited + loop.p50 + loop.p99 + loop.waiting
    here = loop.waited_here + loop.worked_here + loop.cpu_here
    if not math.isfinite(seconds + here + loop.wanted):
        raise Refused("a loop has figures that are not finite numbers")


def _check_rounds(report: RoundsReport) -> None:
    """Refuse numbers that no consumer of coordinated reads has."""
    if len(report.held) > MOST_HELD:
        raise Refused(
            f"a consumer reports {len(report.held)} tasks, and at most {MOST_HELD} are read"
        )
    numbers = [report.index, report.stamp, report.start or 0, report.taken, report.handed]
    for held in report.held:
        numbers += [held.task, held.attempt, held.groups]
    if min(numbers) < 0:
        raise Refused(f"consumer {report.index} reports a number below 0: {min(numbers)}")
