"""What a trainer lacks, or gets twice, does not go unnoticed."""

from collections import Counter

import pytest

from chaos import cached
from chaos.mesh import Reader, Role
from chaos.plan import Cached, Life, Plan
from penstock_dispatcher.core.account import Account, TrainerAccount
from penstock_dispatcher.core.fact_values import InDoubt

ALL = Plan(0, (Life(),), elements=50, sharing=Cached((1,)))
SMALL = Plan(0, (Life(),), elements=50, sharing=Cached((1,), "skip", 1 << 18))
WAIT = Plan(0, (Life(),), elements=50, sharing=Cached((1,), "wait", 1 << 18))


class Trainers:
    """What an act knows."""

    def __init__(self, reader, disturbed, late, killed):
        self.trainers = ["trainer 0"]
        self.disturbed, self.late = {*disturbed}, {*late}
        self.killed = Counter({"trainer 0": killed})
        self.readers_of = lambda _: [reader]


@pytest.fixture
def judged(tmp_path):
    def judged(plan, ids, disturbed=(), late=(), killed=0, doubt=None, moved=False, **more):
        log = tmp_path / "log"
        log.write_bytes(b"".join(b"t%010d\n" % i for i in ids))
        reader = Reader(None, None, log, role=Role(trainer="trainer 0"))
        counts = {"acked": 50, "skipped": 0, "before": 0, "consumed": len(ids), "done": True}
        mine = TrainerAccount("trainer 0", **(counts | more))
        records = () if doubt is None else (InDoubt((1,), doubt, 0.0),)
        numbers = dict.fromkeys(Account.__dataclass_fields__, 0)
        counts = {"elements": 50, "acked": 50, "consumed": mine.consumed, "moved": moved}
        counts |= {"trainers": (mine,), "doubt_records": records, "in_doubt": doubt or 0}
        counts |= {"redelivered": mine.redelivered, "unreported": killed, "finished": False}
        stats = {"iterations": [{"readers": [{"reader": 1, "trainer": "trainer 0"}]}]}
        act = Trainers(reader, disturbed, late, killed)
        problems = cached.check(plan, 1, act, stats, [Account(**(numbers | counts))])
        return " | ".join(problems)

    return judged


ME = ["trainer 0"]


@pytest.mark.parametrize("plan", [ALL, SMALL, WAIT])
def test_all_of_it_once_is_right(judged, plan):
    assert judged(plan, range(50)) == ""


def test_what_is_missing_must_have_been_skipped_or_gone_before(judged):
    assert judged(SMALL, range(10, 50), skipped=7, before=3, late=ME) == ""
    assert "10 ids are missing, 9 had left" in judged(SMALL, range(10, 50), skipped=9, consumed=41)


def test_nobody_skips_who_was_always_read_where_all_wait(judged):
    assert "it was always read" in judged(WAIT, range(10, 50), skipped=10)
    assert judged(WAIT, range(10, 50), skipped=10, disturbed=ME) == ""
    assert judged(WAIT, range(10, 50), before=10, late=ME) == ""


def test_nothing_leaves_a_window_that_has_room(judged):
    assert "it was always read" in judged(ALL, range(10, 50), before=10)
    assert "came late" in judged(SMALL, range(10, 50), before=10)
    assert judged(ALL, range(10, 50), before=10, late=ME) == ""


def test_what_comes_again_was_in_doubt_through_a_death_of_its_own(judged):
    ids = [*range(50), 7]

    assert "1 ids were repeated, and 0 are in doubt: [7]" in judged(ALL, ids, disturbed=ME)
    assert judged(ALL, ids, disturbed=ME, killed=1, doubt=1) == ""
    assert "nothing happened" in judged(ALL, ids, doubt=1)


def test_what_was_in_doubt_may_have_been_taken_and_left_the_window(judged):
    ids = range(3, 50)

    assert judged(SMALL, ids, disturbed=ME, skipped=5, doubt=2) == ""
    assert "loops logged 47, of 45, and 1 are" in judged(
        SMALL, ids, disturbed=ME, skipped=5, doubt=1
    )


def test_a_killed_loop_may_have_had_one_step_in_hand(judged):
    assert judged(ALL, range(1, 50), disturbed=ME, killed=1) == ""
    assert "2 ids are missing" in judged(ALL, range(2, 50), disturbed=ME, killed=1)


def test_counts_of_a_worker_that_is_gone_may_lack_some(judged):
    assert judged(SMALL, range(10, 50), skipped=4, moved=True) == ""
    assert "it was always read" in judged(WAIT, range(10, 50), moved=True)


def test_the_account_counts_no_more_than_loops_took(judged):
    assert "loops logged 50" in judged(ALL, range(50), consumed=51, moved=True, doubt=1)


def test_a_trainer_that_is_not_done_is_named(judged):
    assert "not done" in judged(ALL, range(50), done=False)
