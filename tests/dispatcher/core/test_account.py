"""The account of a pass: what it says, when it balances, and what it says when it does not."""

from dataclasses import replace

import pytest

from penstock.protocol.calls import JobParameters
from penstock.protocol.control import (
    AttemptProgress,
    ElementCounts,
    ReaderHeartbeat,
    TaskReport,
    WorkerHeartbeat,
)
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.measures import MADE, Measure
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Codec, Mode
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.events import (
    Tick,
)
from penstock_dispatcher.core.fact_values import InDoubt, Unfinished
from penstock_dispatcher.core.records import JobRecord
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from tests.dispatcher.core.driver import DrivenCore

BALANCED = Account(
    finished=True,
    elements=100,
    produced=120,
    replayed=20,
    sent=105,
    requeued=5,
    acked=100,
    consumed=103,
    redelivered=3,
    in_doubt=4,
    unreported=0,
    skipped=0,
    nondeterministic=0,
    lost=0,
    splits=3,
    units=100,
    doubt_records=(InDoubt((7,), 4, 0.0),),
)


def test_an_account_that_balances_has_no_faults():
    assert BALANCED.faults() == ()
    assert BALANCED.bounded


@pytest.mark.parametrize(
    "changed, fault",
    [
        ({"acked": 99, "consumed": 99, "redelivered": 0}, "99 of 100 elements were acked"),
        ({"consumed": 98, "redelivered": 0}, "loops consumed 98"),
        (
            {"redelivered": 5, "consumed": 105},
            "5 elements were redelivered, and only 4 may be delivered twice",
        ),
    ],
)
def test_what_does_not_balance_is_named(changed, fault):
    (said,) = replace(BALANCED, **changed).faults()

    assert fault in said


@pytest.mark.parametrize(
    "changed",
    [
        {"finished": False, "acked": 3},
        {"consumed": 98, "redelivered": 0, "unreported": 1},
        {"redelivered": 9, "consumed": 109, "doubt_records": (InDoubt((7,), None, 0.0),)},
        {"acked": 98, "consumed": 98, "redelivered": 0, "nondeterministic": 20, "lost": 20},
    ],
    ids=["it goes on", "a reader did not tell", "doubt without bounds", "a weaker promise"],
)
def test_what_cannot_be_known_is_no_fault(changed):
    assert replace(BALANCED, **changed).faults() == ()


class Life(DrivenCore):
    """A core with a job of one copy, two readers and a worker."""

    def __init__(self):
        super().__init__(SplitProviderSpec((".0",), 100))
        self.comes("w1")
        self.iteration = self.opens(Mode.OFF).iteration
        self.reads("r1")
        self.reads("r2")
        (self.task,) = self.core.state.iterations[self.iteration].tasks

    def reads(
        self, session, runs=RangeSet(), holds=RangeSet(), fence=1, leaving=False, consumed=None
    ):
        self.beats += 1
        known = self.core.state.iterations[self.iteration].sessions.get(session)
        reports = {self.task: TaskReport(fence, AckedSet().union(runs), holds)} if known else {}
        count = len(runs) if consumed is None else consumed
        self.tell(
            ReaderHeartbeat(
                self.iteration, session, known, self.beats, reports, None, leaving, consumed=count
            )
        )

    def works(self, worker, head, taken, attempt=1, done=False, **work):
        told = AttemptProgress(
            attempt, head, AckedSet(taken), done=done, counts=ElementCounts(**work)
        )
        self.tell(WorkerHeartbeat(worker, 1, self.core.state.revision, {self.task: told}))

    def pass_time(self, seconds, *workers):
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            for worker in workers:
                self.tell(WorkerHeartbeat(worker, 1, self.core.state.revision))
            self.tell(Tick())


def test_a_pass_without_trouble_balances():
    life = Life()
    life.works("w1", 10, 10, produced=10, sent=10, done=True)
    life.reads("r1", RangeSet.of((0, 6)), leaving=True)
    life.reads("r2", RangeSet.of((6, 10)), leaving=True)

    account = life.stats.account
    assert (account.produced, account.acked, account.elements, account.consumed) == (10, 10, 10, 10)
    assert (account.replayed, account.redelivered, account.in_doubt, account.unreported) == (
        0,
        0,
        0,
        0,
    )
    assert life.stats.faults == ()


def test_what_two_attempts_cost_is_summed_up_and_outlasts_the_dispatcher():
    life = Life()
    life.works("w1", 6, 4, produced=6, sent=6, skipped=2)
    life.dies("w1")
    life.comes("w2")
    life.reads("r1", RangeSet.of((0, 4)), fence=2)
    life.reads("r2", fence=2)
    life.restart()
    life.comes("w2")
    life.works("w2", 10, 10, attempt=2, produced=10, sent=6, requeued=1, skipped=2, done=True)
    life.restart()

    account = life.stats.account
    assert account.finished
    assert (account.produced, account.replayed, account.sent) == (16, 6, 12)
    assert (account.requeued, account.skipped) == (1, 4)


def test_an_acked_element_that_no_loop_consumed_is_a_fault():
    life = Life()
    life.works("w1", 10, 10, produced=10, sent=10, done=True)
    life.reads("r1", RangeSet.of((0, 6)), leaving=True)
    life.reads("r2", RangeSet.of((6, 9)), leaving=True)

    assert life.stats.faults == ("10 elements are acked, but loops consumed 9",)


def test_readers_that_have_not_reported_all_are_waited_for():
    life = Life()
    life.works("w1", 10, 10, produced=10, sent=10, done=True)
    life.reads("r1", RangeSet.of((0, 6)), leaving=True)

    assert life.stats.account.unreported == 1
    assert life.stats.faults == ()


def test_what_a_reader_was_handed_counts_once_under_whatever_id():
    life = Life()
    life.reads("r1", RangeSet.of((0, 4)))
    life.pass_time(34, "w1")
    given_up = life.stats.account
    life.tell(ReaderHeartbeat(life.iteration, "r1", None, 900, consumed=5))

    assert (given_up.consumed, given_up.unreported) == (4, 2)
    assert (life.stats.account.consumed, life.stats.account.unreported) == (5, 1)


def test_what_readers_were_handed_is_known_behind_the_end_also_if_they_say_no_more():
    life = Life()
    life.reads("r1", RangeSet.of((0, 6)))
    life.works("w1", 10, 10, produced=10, sent=10, done=True)
    life.restart()

    assert life.stats.account.finished
    assert life.stats.account.consumed == 6


def test_what_was_forgotten_before_its_end_is_counted_newest_first():
    state = DispatcherState()
    parameters = JobParameters("d", Mode.DYNAMIC, Codec.NONE)
    for name in ("old", "new"):
        state.jobs[name] = JobRecord(parameters, 1, False, unfinished={2: Unfinished(5)})

    shown = DispatcherCore(state, CoreSettings(), 0.0).stats(0.0).forgotten

    assert [(was.job, was.repetition, was.acked) for was in shown] == [("new", 2, 5), ("old", 2, 5)]


def tokens(number):
    return (Measure("", "pack", MADE, "tokens", number),)


def figures(life):
    (found,) = life.stats.figures
    return found


def test_what_operators_counted_is_summed_up_over_attempts_and_outlasts_the_dispatcher():
    life = Life()
    life.works("w1", 6, 4, measures=tokens(600))
    life.works("w1", 6, 4, measures=tokens(600))
    life.dies("w1")
    life.comes("w2")
    life.reads("r1", RangeSet.of((0, 4)), fence=2)
    life.reads("r2", fence=2)
    life.restart()
    life.comes("w2")
    life.works("w2", 10, 10, attempt=2, measures=tokens(700), done=True)
    life.restart()

    assert (figures(life).made, figures(life).per_second) == (1300, None)


def test_what_operators_make_a_second_is_that_of_the_newest_reports():
    life = Life()
    for second in range(20):
        life.works("w1", second, 0, measures=tokens(1000 * (second + 1)))
        life.pass_time(1.0, "w1")

    assert figures(life).made == 20_000
    assert figures(life).per_second == pytest.approx(1000, rel=0.2)


def test_what_an_attempt_made_before_the_dispatcher_restarted_was_not_made_lately():
    life = Life()
    life.works("w1", 5, 0, measures=tokens(50_000))
    life.restart()
    life.comes("w1")
    life.works("w1", 6, 0, measures=tokens(60_000))
    assert (figures(life).made, figures(life).per_second) == (60_000, 0.0)

    life.pass_time(1.0, "w1")
    life.works("w1", 7, 0, measures=tokens(60_500))
    assert figures(life).per_second == pytest.approx(500)
