"""What is lost, repeated or not accounted for does not go unnoticed."""

from collections import Counter
from dataclasses import replace

import pytest

from chaos import counting
from chaos.counting import Logged, check
from chaos.mesh import Reader
from chaos.plan import Life, Plan
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.fact_values import InDoubt

PLAN = Plan(0, (Life(),), elements=100)
OFF = replace(PLAN, mode="parallel_epochs")
BATCHES = replace(PLAN, pipeline="batch")


def accounts(**more):
    numbers = dict.fromkeys(Account.__dataclass_fields__, 0)
    right = {"elements": 100, "produced": 100, "sent": 100, "acked": 100, "consumed": 100}
    return [Account(**(numbers | right | {"finished": True, "doubt_records": ()} | more))]


def once(*more, without=()):
    return Counter([*(i for i in range(100) if i not in without), *more])


def test_everything_once_is_right():
    assert check(PLAN, Logged(once(), 0, 1), accounts()) == []


def test_what_is_missing_is_named():
    (problem, *_) = check(PLAN, Logged(once(without=(7,)), 0, 1), accounts())

    assert "1 of 100 ids are missing" in problem
    assert "[7]" in problem


def test_a_killed_loop_may_have_had_one_step_in_hand():
    killed = accounts(consumed=99, unreported=1)

    assert check(PLAN, Logged(once(without=(7,)), 1, 1), killed) == []
    assert check(PLAN, Logged(once(without=(7, 8)), 1, 1), killed) != []
    assert check(BATCHES, Logged(once(without=range(7)), 1, 1), killed) == []


def test_what_comes_again_is_named_unless_it_is_doubted():
    in_doubt = accounts(in_doubt=1, unreported=1, doubt_records=(InDoubt(1, 1, 0.0),))

    (problem, *_) = check(PLAN, Logged(once(7), 1, 1), accounts(unreported=1))
    assert "1 ids were repeated, and 0 elements are in doubt: [7]" in problem
    assert check(PLAN, Logged(once(7), 1, 1), in_doubt) == []
    assert check(PLAN, Logged(once(7, 8), 1, 1), in_doubt) != []


def test_each_copy_is_whole_where_every_task_reads_everything():
    two = accounts(elements=200, acked=200, consumed=200)

    assert check(OFF, Logged(once() + once(), 0, 2), two) == []
    assert check(OFF, Logged(once() + once(without=(7,)), 0, 2), two) != []
    assert check(OFF, Logged(once(), 0, 2), accounts()) != []


def test_copies_are_counted_by_what_was_made_and_not_by_how_often_most_ids_came():
    doubt = {"doubt_records": (InDoubt(1, None, 0.0),), "unreported": 1}
    again, two = range(60), accounts(elements=200, acked=200, consumed=200, **doubt)

    assert check(OFF, Logged(once(*again), 1, 1), accounts(**doubt)) == []
    assert check(OFF, Logged(once(*again) + once(), 1, 1), two) == []
    assert check(OFF, Logged(once(*again) + once(without=(70, 71)), 1, 1), two) != []
    batches = accounts(elements=30, acked=30, consumed=30, **doubt)
    assert check(replace(OFF, pipeline="batch"), Logged(once() + once(), 1, 1), batches) == []


def test_what_a_source_repeats_comes_as_often_in_each_pass():
    twice = replace(PLAN, pipeline="repeat-batch", passes=2)
    half = Counter(range(50))

    four = Logged(half + half + half + half, 0, 1)
    assert check(twice, four, accounts() + accounts()) == []
    assert check(twice, four, accounts()) != []
    assert check(twice, Logged(four.ids - Counter([7]), 0, 1), accounts() + accounts()) != []


def test_an_account_that_does_not_balance_is_told():
    assert check(PLAN, Logged(once(), 0, 1), accounts(acked=99)) != []
    assert check(PLAN, Logged(once(), 0, 1), accounts(consumed=101, redelivered=1)) != []
    assert check(PLAN, Logged(once(), 0, 1), accounts(finished=False)) != []
    assert check(PLAN, Logged(once(), 0, 1), []) != []


@pytest.mark.parametrize(
    ("log", "after_save", "ids"),
    [
        ("t1 t2 s1 t3 e0", -1, {1, 2}),
        ("t1 f1 t3 s2 t4", -1, {1}),
        ("t1 t2", -1, {1, 2}),
        ("t1 t2", 0, {1, 2}),
        ("t1 t2", 1, set()),
    ],
)
def test_what_was_taken_before_a_cut_is_told_from_what_came_behind_it(
    tmp_path, log, after_save, ids
):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"%s%010d\n" % (w[:1].encode(), int(w[1:])) for w in log.split()))
    reader = Reader(None, None, path, after_save)

    assert counting.before([reader], 1) == Counter(ids)


def test_half_a_record_counts_when_it_is_whole(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"t0000000001\nt00000")
    reader = Reader(None, None, path)

    assert reader.records() == [("t", 1)]
    with path.open("ab") as log:
        log.write(b"00002\n")
    assert reader.records() == [("t", 1), ("t", 2)]
