"""Pictures of a cluster, at the width of a screen."""

import re
from dataclasses import replace

import pytest

from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.types import PROTOCOL, Versions
from penstock_cluster.cli.look import Look
from penstock_cluster.cli.picture import jobs_table, picture
from penstock_dispatcher.core.account import Account, TrainerAccount
from penstock_dispatcher.core.stats import (
    CacheStats,
    ConsumerStats,
    Counts,
    DispatcherStats,
    ForgottenStats,
    IterationStats,
    OpenedPort,
    ReaderStats,
    RegistrationStats,
    RoundsStats,
    TaskStats,
)
from tests.cluster.cli.shown import VERSIONS, worker
from tests.cluster.cli.shown import shown as printed

WIDTHS = [60, 80, 100, 160]

LONG = "worker-3.penstock.some-namespace.svc.cluster.local:7001"

ADDRESSES = ["127.0.0.1:44721", "3f2a81c05d7e:7001", LONG]


def account(taken=100, made=100, finished=False):
    zeros = (0,) * 11
    return Account(finished, made, made, 0, made, 0, taken, taken, *zeros[:8], ())


def task(name, where, failure=None, *, done=False):
    return TaskStats(name, 0, 1, where, 100, 90, 3, 100, done, failure)


def a_pass(number, job="j", *, tasks=(), readers=(), finished=False, **more):
    return IterationStats(
        number, job, 0, "d", "dynamic", finished, False, 0, account(finished=finished),
        more.pop("faults", ()), tuple(tasks), tuple(readers), **more,
    )  # fmt: skip


def look(*iterations, workers=()):
    stats = DispatcherStats(
        "0.0.0.0:7000", 1, 1, 1, Counts(), tuple(workers), iterations, None, VERSIONS
    )
    return Look("big:7000", 10.0, 1_800_000_000.0, stats)


def shown(what, width=80):
    text = printed(what, width=width)
    assert max(map(len, text.splitlines())) <= width
    return text


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_addresses_are_whole_at_any_width(width):
    state = {"silent": 12.3, "connected": False}
    workers = [worker(address, **state) for address in ADDRESSES]
    tasks = [task(59_640_129_823, address) for address in ADDRESSES]

    text = shown(picture(look(a_pass(1, tasks=tasks), workers=workers)), width)

    assert [text.count(address) for address in ADDRESSES] == [2, 2, 2]


def test_what_runs_comes_first_and_what_is_over_has_a_line():
    passes = [
        *(a_pass(i, f"old {i}", finished=True, readers=[reader()]) for i in range(8)),
        a_pass(8, "new"),
    ]

    text = shown(picture(look(*passes)))

    assert text.index("new, repetition 0") < text.index("\nfinished\n") < text.index("old 7")
    assert "old 7, repetition 0: 100 elements acked by 1 reader\n" in text
    assert "old 2" not in text
    assert "3 more: penstock jobs big:7000" in text
    assert not re.search(r"\blive\b", text)


def test_how_a_reader_reads_is_shown_unless_all_comes_by_grpc():
    near = replace(reader(1), transports={"local": 1, "grpc": 3})
    far = replace(reader(2), transports={"grpc": 4})

    text = shown(picture(look(a_pass(1, readers=[near, far]))), 160)

    assert "reader 1: live, 50 elements, from 1 worker by local, 3 workers by grpc\n" in text
    assert "reader 2: live, 50 elements\n" in text


def reader(number=7, status="live", silent=0.1, process=None):
    return ReaderStats(number, status, silent, 50, process)


def test_readers_are_shown_by_process_and_those_that_left_in_one_line():
    readers = [
        reader(1, process=ReaderProcess("a", 7, 1, "0.1.0", "3.11.2")),
        reader(2, silent=9.0, process=ReaderProcess("b", 8, 2, "0.0.9", "3.11.2")),
        reader(3, "expired", None),
        reader(4, "left", None),
        reader(5, "left", None),
    ]

    text = shown(picture(look(a_pass(1, readers=readers))), 160)

    assert "reader 1 (host a, pid 7, rank 1): live, 50 elements" in text
    assert "reader 2 (host b, pid 8, rank 2; penstock 0.0.9, Python 3.11.2): silent for 9.0" in text
    assert "reader 3: expired, 50 elements" in text
    assert "readers that have left: 2, with 100 elements" in text


def test_a_pass_that_nobody_reads_says_since_when():
    text = shown(picture(look(a_pass(1, unread=60.0))))

    assert "dynamic: no reader since " in text


def test_what_a_pass_waits_for_is_shown():
    waits = a_pass(1, readers=[reader()], waiting_for="a worker: none is registered at big:7000")

    text = shown(picture(look(waits)))

    assert "waits for a worker: none is registered at big:7000" in text
    assert "no worker is registered" in text


def test_what_silent_readers_hold_is_shown():
    held = "2 elements are unacked at reader 7 (host a, pid 7; silent 4.0 s, expires at 33 s)"

    text = shown(picture(look(a_pass(1, readers=[reader()], held_by=held))), 100)

    assert held in text
    assert "waits for" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_what_was_left_out_is_shown_with_the_first_error(width):
    letters = ({"message": "ValueError: no\nand more"}, {"message": "late"})
    some = replace(a_pass(1, dead_letters=letters), account=replace(account(), errors=1200))

    text = " ".join(shown(picture(look(some)), width).split())

    assert "left out 1,200 errors; the first: ValueError: no" in text
    assert "more" not in text.partition("the first")[2]
    assert "left out" not in shown(picture(look(a_pass(1))), width)


def test_failures_are_a_line_without_their_tracebacks():
    said = "map(f) failed at element 0: ValueError: no\n\nTraceback (most recent call last):\n  x"
    failing = a_pass(1, tasks=[task(1, "w:1", said), task(2, "w:1", said)])

    text = shown(picture(look(failing)))

    assert "map(f) failed at element 0: ValueError: no (and 1 task more)" in text
    assert "Traceback" not in text


def test_the_target_is_shown_as_it_was_given_with_the_dispatchers_version():
    text = shown(picture(look(workers=[worker("a:1")])))

    assert text.startswith("big:7000  penstock 0.1.0, Python 3.11.2")
    assert "0.0.0.0" not in text
    assert text.count("Python") == 1


def test_versions_of_workers_are_shown_where_they_differ():
    other = worker("b:1", versions=Versions(PROTOCOL, "3.12.1", "0.2.0"))

    text = shown(picture(look(workers=[worker("a:1"), other])), 160)

    assert "penstock 0.2.0, Python 3.12.1" in text


def test_a_worker_that_readers_cannot_reach_says_for_how_many():
    missed = replace(worker("a:1"), unreachable=2)

    assert "unreachable for 2 readers" in shown(picture(look(workers=[missed])))


def test_names_are_no_markup():
    now = look(a_pass(1, "[red]j[/red] [/]", outline="map([bold]f)"))

    assert "[red]j[/red] [/], repetition" in shown(picture(now))
    assert "[red]j[/red] [/]" in shown(jobs_table(now), 160)


def test_an_account_that_does_not_balance_is_shown_of_passes_that_are_over_too():
    passes = [a_pass(i, finished=True, faults=("lost 1",) if i == 0 else ()) for i in range(9)]

    assert "the account does not balance: lost 1" in shown(picture(look(*passes)))


@pytest.mark.parametrize("width", WIDTHS)
def test_jobs_name_the_pipeline_of_those_without_a_name(width):
    now = look(a_pass(1, "anonymous_1", private=True, outline="range → map(f) → batch"))

    text = shown(jobs_table(now), width)

    assert "anonymous " in text
    for word in ("range", "map(f)", "batch"):
        assert word in text


def test_a_pass_that_was_forgotten_unfinished_is_shown():
    was = ForgottenStats("night", 2, "dynamic", "range", 1234, failed=False)
    now = look()
    now = replace(now, stats=replace(now.stats, forgotten=(was,)))

    assert "1 pass was forgotten unfinished: penstock jobs big:7000" in shown(picture(now))
    assert re.search(r"night .* unfinished, forgotten .* 1,234", shown(jobs_table(now), 100))


@pytest.mark.parametrize("width", WIDTHS)
def test_who_holds_up_the_consumers_of_a_pass_is_shown(width):
    lost = "consumer 2 (host a, pid 7), silent for 12.0 s"
    consumers = tuple(
        ConsumerStats(index, 10 + index, taken, why)
        for index, (taken, why) in enumerate([(1200, ""), (1190, ""), (1180, lost)])
    )
    read = a_pass(1, rounds=RoundsStats(1200, 1180, None, consumers))

    text = " ".join(shown(picture(look(read)), width).split())

    assert "read in rounds by 3 consumers: 1,200 released, 1,180 taken by all" in text
    assert "the first is at round 1,200, the last at 1,180: consumer 2" in text
    assert f"lost: {lost}" in text

    even = tuple(ConsumerStats(index, 10 + index, 40, "") for index in range(2))
    over = a_pass(1, rounds=RoundsStats(40, 40, 40, even))
    text = " ".join(shown(picture(look(over)), width).split())
    assert "by 2 consumers: 40 released, 40 in all, 40 taken by all" in text
    assert "the last at" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_what_trainers_share_and_miss_is_shown(width):
    trainers = (
        TrainerAccount("quick", 1000, 0, 0, 1000, done=True),
        TrainerAccount("slow", 900, 150, 50, 700, done=False),
    )
    shared = replace(
        a_pass(1, cache=CacheStats("skip", 1000, 1700, 1.7)),
        account=replace(account(), trainers=trainers),
    )

    text = " ".join(shown(picture(look(shared)), width).replace("│", " ").split())

    assert "shared by 2 trainers: made 1,000, sent 1,700, each 1.70 times" in text
    assert "quick 1,000 1,000 0 0 done" in text
    assert "slow 900 700 150 50 reads" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_registered_datasets_have_a_line_each_the_newest_of_many(width):
    known = [
        RegistrationStats(f"corpus {n}", "24ebce829c01", "range", "lz4", True, ("a job",))
        for n in range(25)
    ]
    plain = look()
    full = replace(plain, stats=replace(plain.stats, registrations=tuple(known)))
    text = shown(picture(full), width)

    more = "5 more: penstock status --json"
    for said in ("registered datasets", "corpus 24", "corpus 5 ", "24ebce829c01", "a job", more):
        assert said in text
    assert "corpus 4 " not in text
    assert "registered datasets" not in shown(picture(plain))


def test_it_is_said_what_auto_means_and_why():
    def runs(number, compression):
        stats = {"tasks": [{"task": number, "compression": compression}]}
        return replace(worker(f"w:{number}"), stats=stats)

    def said(*compressions):
        workers = [runs(number, how) for number, how in enumerate(compressions)]
        tasks = [task(number, "w") for number in range(len(compressions))]
        text = shown(picture(look(a_pass(1, tasks=tasks), workers=workers)))
        return [line.strip() for line in text.splitlines() if line.startswith("compression")]

    assert said("none") == said() == []
    assert said("ZSTD") == ["compression ZSTD"]
    assert said("AUTO: none (ratio 1.0)") == ["compression AUTO: none (ratio 1.0)"]
    assert said("AUTO: lz4 (ratio 4.6, link 90 MB/s)", "AUTO: none", "AUTO: none (ratio 1.0)") == [
        "compression of 1 task AUTO: lz4 (ratio 4.6, link 90 MB/s)",
        "compression of 2 tasks AUTO: none",
    ]


def test_what_can_be_read_without_credentials_is_shown():
    now = look()
    opened = replace(now.stats, tensorflow=OpenedPort("big:7001", ("train", "eval")))

    assert "without credentials" not in shown(picture(now))
    found = " ".join(shown(picture(replace(now, stats=opened)), 160).split())
    assert "without credentials, at big:7001: train, eval" in found
