"""What arrives is looked at before anybody decides."""

import math
from dataclasses import replace

import pytest

from penstock.errors import DefinitionError, Refused
from penstock.protocol.calls import Registration
from penstock.protocol.control import (
    AttemptProgress,
    ElementCounts,
    ReaderHeartbeat,
    SaveBarrier,
    SplitRequest,
    WorkerHeartbeat,
)
from penstock.protocol.loop_time import LoopTime, ReaderProcess
from penstock.protocol.measures import MOST, Measure
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import AckedSet
from penstock.protocol.recording import RecordingProgress, RecordingReport, SaveStage
from penstock.protocol.rounds import GroupsHeld, RoundsReport
from penstock.protocol.types import PROTOCOL, Codec, Mode, Versions
from penstock_dispatcher import request_checks
from tests.openings import changed, opening

LONG = "x" * 1025
VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")
OPEN = opening(VERSIONS, "set", Mode.OFF, "job", 0, Codec.NONE)
BEAT = ReaderHeartbeat(1, "token", None, 0)
WORKER = WorkerHeartbeat("w:1", 1, -1, versions=VERSIONS)


def test_what_real_processes_send_is_accepted():
    request_checks.check_opening(OPEN)
    request_checks.check_heartbeat(
        replace(BEAT, barrier=SaveBarrier(0, "step 1", 5.0), process=ReaderProcess("a", 1))
    )
    request_checks.check_worker_event(WORKER)
    request_checks.check_worker_event(SplitRequest("[::1]:5000", 1, 1, 1, 0, 0))
    request_checks.check_definition(b"x", 1)


def test_an_id_is_short_and_printable_and_its_spec_has_a_bound():
    request_checks.check_registration(Registration("", Codec.NONE))
    request_checks.check_registration(Registration("corpus", Codec.NONE, b"spec"))

    for dataset_id in (LONG, "a/b", " ", "a\n"):
        with pytest.raises(Refused, match="dataset_id"):
            request_checks.check_registration(Registration(dataset_id, Codec.NONE))
    with pytest.raises(Refused, match="dataset_id"):
        request_checks.check_dataset_id("")
    with pytest.raises(Refused, match="element_spec=None"):
        request_checks.check_registration(Registration("a", Codec.NONE, bytes(1 << 19)))


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": LONG},
        {"dataset_id": LONG},
        {"job_name": LONG},
        {"trainer": LONG},
        {"when_full": LONG},
        {"versions": replace(VERSIONS, python=LONG)},
        {"versions": replace(VERSIONS, penstock=LONG)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_long_name_in_a_request_is_refused(changes):
    with pytest.raises(Refused, match="1025 bytes, and a name may take 1024"):
        request_checks.check_opening(changed(OPEN, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"session": LONG},
        {"trainer": LONG},
        {"barrier": SaveBarrier(0, LONG, 5.0)},
        {"process": ReaderProcess(LONG, 1)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_long_name_in_a_heartbeat_is_refused(changes):
    with pytest.raises(Refused, match="1025 bytes, and a name may take 1024"):
        request_checks.check_heartbeat(replace(BEAT, **changes))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["seconds", "waited", "p99", "waiting", "cpu_here", "wanted"])
def test_a_loop_whose_figures_are_no_numbers_is_refused(field, number):
    request_checks.check_heartbeat(replace(BEAT, loop=LoopTime(wanted=-1.0)))
    with pytest.raises(Refused, match="not finite numbers"):
        request_checks.check_heartbeat(replace(BEAT, loop=LoopTime(**{field: number})))


def test_what_consumers_send_is_accepted():
    held = (GroupsHeld(1, 1, 5), GroupsHeld(2, 1, 0))
    for start in (None, 0, 17):
        report = RoundsReport(3, 1_800_000_000_000_000_000, start, 17, held)
        request_checks.check_heartbeat(replace(BEAT, rounds=report))


@pytest.mark.parametrize(
    "changes",
    [
        {"index": -1},
        {"stamp": -1},
        {"start": -1},
        {"taken": -1},
        {"handed": -1},
        {"held": (GroupsHeld(-1, 1, 1),)},
        {"held": (GroupsHeld(1, -1, 1),)},
        {"held": (GroupsHeld(1, 1, -1),)},
        {"held": (GroupsHeld(1, 1, 1),) * ((1 << 16) + 1)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_no_consumer_has_is_refused(changes):
    with pytest.raises(Refused, match="consumer"):
        report = replace(RoundsReport(0, 1), **changes)
        request_checks.check_heartbeat(replace(BEAT, rounds=report))


@pytest.mark.parametrize("worker", [LONG, "", " ", "w:1\n", "\x1b[2Jw:1", "w\u202e:1"], ids=repr)
def test_what_is_no_address_is_no_worker(worker):
    for signal in (replace(WORKER, worker=worker), SplitRequest(worker, 1, 1, 1, 0, 0)):
        with pytest.raises(Refused) as told:
            request_checks.check_worker_event(signal)
        assert str(told.value).isprintable()


def test_a_worker_that_sends_too_much_is_refused():
    with pytest.raises(Refused, match="bytes of statistics"):
        request_checks.check_worker_event(
            replace(WORKER, stats=bytes(request_checks.MOST_STATS + 1))
        )


def test_reports_on_saves_are_few_and_have_numbers():
    progress = RecordingProgress(1, 10, 1, 80)
    report = RecordingReport("s", 1, SaveStage.OPEN, progress)
    request_checks.check_worker_event(replace(WORKER, recordings=(report,)))

    for recordings, why in (
        ((report,) * (request_checks.MOST_RECORDINGS + 1), "reports on 2049 saves"),
        ((replace(report, save_id=LONG),), "a save of worker w:1 takes"),
        ((replace(report, progress=replace(progress, elements=-1)),), "a number below 0 of save s"),
    ):
        with pytest.raises(Refused, match=why):
            request_checks.check_worker_event(replace(WORKER, recordings=recordings))


def test_a_definition_over_the_limit_is_refused_with_the_way_out():
    with pytest.raises(DefinitionError, match=r"takes 2 bytes.*takes 1: .*max_definition_bytes"):
        request_checks.check_definition(b"xx", 1)


@pytest.mark.parametrize("slots", [-1, 4097])
def test_slots_that_no_worker_has_are_refused(slots):
    heartbeat = replace(WORKER, profile=WorkerProfile(slots=slots))

    with pytest.raises(Refused, match=f"{slots} slots"):
        request_checks.check_worker_event(heartbeat)


def test_weights_of_more_sources_than_a_mixture_has_are_refused():
    request_checks.check_weights("job", {"web": 0.5})

    many = dict.fromkeys(map(str, range(request_checks.MOST_SOURCES + 1)), 1.0)
    with pytest.raises(Refused, match="sources"):
        request_checks.check_weights("job", many)


@pytest.mark.parametrize(("job", "source"), [("j" * 5000, "web"), ("job", "w" * 5000)])
def test_a_long_name_beside_weights_is_refused(job, source):
    with pytest.raises(Refused, match="5000"):
        request_checks.check_weights(job, {source: 1.0})


def measured(*measures):
    counts = ElementCounts(measures=measures)
    return replace(WORKER, progress={1: AttemptProgress(1, 0, AckedSet(), counts=counts)})


@pytest.mark.parametrize("number", [math.nan, math.inf, -1.0])
def test_measures_that_are_no_numbers_are_refused(number):
    with pytest.raises(Refused, match="each is a number of at least 0"):
        request_checks.check_worker_event(measured(Measure("", "pack", "made", "tokens", number)))


def test_measures_that_are_too_many_or_have_endless_names_are_refused():
    one = Measure("", "pack", "made", "tokens", 1.0)
    request_checks.check_worker_event(measured(*MOST * [one]))

    with pytest.raises(Refused, match="reports 65 measures of a task: at most 64 are kept"):
        request_checks.check_worker_event(measured(*(MOST + 1) * [one]))
    with pytest.raises(Refused, match="a measure of worker"):
        request_checks.check_worker_event(measured(replace(one, operator="x" * 5000)))
