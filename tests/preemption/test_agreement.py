"""At which step all trainers stop: scenarios, and laws over random runs in virtual time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import Refused
from penstock.preemption.agreement import LEASE, LEAST_AHEAD, Agreements
from penstock.protocol.preemption import PreemptionReport


class Meeting:
    """A dispatcher that may be killed, and what it wrote down."""

    def __init__(self):
        self.kept = []
        self.agreements = Agreements((), self.kept.append)

    def restart(self):
        self.agreements = Agreements(list(self.kept), self.kept.append)

    def say(self, trainer, steps, now=0.0, **more):
        return self.agreements.report(PreemptionReport("g", trainer, steps, **more), now)


def test_without_a_notice_a_trainer_goes_on_and_may_be_ahead_by_what_it_makes_in_a_while():
    meeting = Meeting()

    slow, fast = meeting.say("a", 10), meeting.say("b", 10, rate=100.0)

    assert (slow.allowed, slow.noticed, slow.agreed) == (10 + LEAST_AHEAD, False, 0)
    assert fast.allowed == 110


def test_a_notice_of_one_stops_all_at_a_step_that_nobody_is_beyond():
    meeting = Meeting()
    meeting.say("a", 10)
    meeting.say("b", 10, rate=50.0)

    one = meeting.say("a", 11, noticed=True)
    other = meeting.say("b", 60)

    assert one.agreed == other.agreed == 60
    assert one.noticed and other.noticed


def test_nobody_ends_before_all_have_saved():
    meeting = Meeting()
    meeting.say("a", 10)
    meeting.say("b", 10)
    step = meeting.say("a", 10, noticed=True).agreed

    assert not meeting.say("a", step, saved=True).all_saved
    assert meeting.say("b", step, saved=True).all_saved
    assert meeting.say("a", step, saved=True).all_saved


def test_a_trainer_that_dies_before_the_step_is_given_up():
    meeting = Meeting()
    meeting.say("a", 10)
    meeting.say("b", 10)
    step = meeting.say("a", 10, noticed=True).agreed

    assert not meeting.say("a", step, now=LEASE, saved=True).all_saved
    assert meeting.say("a", step, now=LEASE + 0.1, saved=True).all_saved


def test_after_a_restart_nothing_is_agreed_before_all_have_reported():
    meeting = Meeting()
    meeting.say("a", 10)
    meeting.say("b", 10)
    meeting.restart()

    first = meeting.say("a", 11, noticed=True)
    other = meeting.say("b", 500)
    again = meeting.say("a", 12, noticed=True)

    assert (first.noticed, first.agreed) == (True, 0)
    assert other.agreed == again.agreed == 502


def test_what_was_agreed_outlasts_a_restart():
    meeting = Meeting()
    meeting.say("a", 10)
    step = meeting.say("a", 10, noticed=True).agreed
    meeting.restart()

    assert meeting.say("a", step, saved=True).agreed == step
    assert Agreements(meeting.agreements.facts(), lambda _: None).facts()


def test_one_that_comes_late_stops_at_the_same_step():
    meeting = Meeting()
    step = meeting.say("a", 10, noticed=True).agreed

    assert meeting.say("late", 3).agreed == step


def test_one_that_was_given_up_and_is_beyond_it_is_told():
    meeting = Meeting()
    step = meeting.say("a", 10, noticed=True).agreed
    meeting.say("a", step, saved=True)

    with pytest.raises(Refused, match=f"have stopped at step {step}, and b has made 99"):
        meeting.say("b", 99)


def test_one_that_went_on_alone_is_waited_for_unless_others_have_saved():
    meeting = Meeting()
    meeting.say("b", 10)
    step = meeting.say("a", 10, noticed=True).agreed
    meeting.restart()

    later = meeting.say("b", step + 5).agreed

    assert later == step + 5 + LEAST_AHEAD
    assert meeting.say("a", step).agreed == later


def test_when_all_have_left_the_next_ones_begin_anew():
    meeting = Meeting()
    meeting.say("a", 10, noticed=True)
    meeting.say("a", 12, saved=True, leaving=True)

    fresh = meeting.say("a again", 12)

    assert (fresh.noticed, fresh.agreed) == (False, 0)


events = st.lists(
    st.tuples(
        st.sampled_from(["step", "report", "notice", "restart", "die", "wait"]),
        st.integers(0, 3),
    ),
    max_size=120,
)


@settings(max_examples=300)
@given(events, st.integers(1, 4))
def test_all_that_live_stop_at_one_step_and_none_is_ever_beyond(script, number):
    meeting, now = Meeting(), 0.0
    steps = dict.fromkeys(range(number), 0)
    allowed, agreed, noticed, dead = {}, {}, set(), set()

    def report(who):
        nonlocal now
        verdict = meeting.say(f"t{who}", steps[who], now, noticed=who in noticed)
        allowed[who] = verdict.allowed
        if verdict.agreed:
            agreed[who] = verdict.agreed

    for who in steps:
        report(who)
    for what, chosen in script:
        who = chosen % number
        now += 0.01
        if what == "restart":
            meeting.restart()
        elif what == "wait":
            now += LEASE / 3
            for one in set(steps) - dead:
                report(one)
        elif who in dead:
            continue
        elif what == "step":
            limit = agreed.get(who, allowed[who])
            steps[who] += steps[who] < limit
        elif what == "report":
            report(who)
        elif what == "notice":
            noticed.add(who)
            report(who)
        elif what == "die" and len(dead) < number - 1:
            dead.add(who)
    alive = sorted(set(steps) - dead)
    for _ in range(8):  # dead ones are given up meanwhile
        now += LEASE / 4
        for who in alive:
            report(who)

    stops = {agreed.get(who) for who in alive}
    assert len(stops) == 1
    (stop,) = stops
    assert (stop is None) == (not noticed & set(alive) and stop is None)
    if stop is not None:
        assert all(steps[who] <= stop for who in alive)
