"""At which step all trainers stop: scenarios, and laws over random runs in virtual time."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Refused
from penstock.preemption.agreement import LEASE, LEAST_AHEAD, Agreed, Agreements, Fact
from penstock.protocol.calls import PreemptionReport


class Meeting:
    """A dispatcher that may be killed, and what it wrote down."""

    def __init__(self, **steps):
        self.kept = []
        self.agreements = Agreements((), self.kept.append)
        for trainer, made in steps.items():
            self.say(trainer, made)

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
    meeting = Meeting(a=10)
    meeting.say("b", 10, rate=50.0)

    one = meeting.say("a", 11, noticed=True)
    other = meeting.say("b", 60)

    assert one.agreed == other.agreed == 60
    assert one.noticed and other.noticed


def test_nobody_ends_before_all_have_saved():
    meeting = Meeting(a=10, b=10)
    step = meeting.say("a", 10, noticed=True).agreed

    assert not meeting.say("a", step, saved=True).all_saved
    assert meeting.say("b", step, saved=True).all_saved
    assert meeting.say("a", step, saved=True).all_saved


def test_a_trainer_that_dies_before_the_step_is_given_up():
    meeting = Meeting(a=10, b=10)
    step = meeting.say("a", 10, noticed=True).agreed

    assert not meeting.say("a", step, now=LEASE, saved=True).all_saved
    assert meeting.say("a", step, now=LEASE + 0.1, saved=True).all_saved


def test_after_a_restart_nothing_is_agreed_before_all_have_reported():
    meeting = Meeting(a=10, b=10)
    meeting.restart()

    first = meeting.say("a", 11, noticed=True)
    other = meeting.say("b", 500)
    again = meeting.say("a", 12, noticed=True)

    assert (first.noticed, first.agreed) == (True, 0)
    assert other.agreed == again.agreed == 502


def test_what_was_agreed_outlasts_a_restart():
    meeting = Meeting(a=10)
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
    meeting = Meeting(b=10)
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


def test_a_restart_forgets_no_step_that_a_trainer_may_make_yet():
    meeting = Meeting(a=10)
    before = meeting.say("b", 10, rate=50.0).allowed
    meeting.restart()

    meeting.say("a", 11, noticed=True)
    agreed = meeting.say("b", 20, allowed=before).agreed

    assert agreed == before == 60


def test_one_that_goes_on_without_leave_is_not_counted_on_until_it_waits_again():
    meeting = Meeting(a=10, b=10)
    meeting.say("a", 10, noticed=True)
    meeting.restart()

    meeting.say("a", 11, noticed=True)
    alone = meeting.say("b", 90, alone=True)
    waits = meeting.say("b", 95, allowed=96)

    assert (alone.noticed, alone.agreed) == (True, 12)
    assert waits.agreed == meeting.say("a", 12).agreed == 97


def test_before_a_step_is_agreed_one_without_leave_is_waited_for():
    meeting = Meeting(a=10)

    alone = meeting.say("b", 90, alone=True)
    first = meeting.say("a", 11, noticed=True)

    assert (alone.agreed, first.noticed, first.agreed) == (0, True, 0)
    assert meeting.say("b", 93, allowed=94).agreed == 95


def test_once_one_has_come_to_the_step_nobody_stops_elsewhere():
    meeting = Meeting(b=10)
    step = meeting.say("a", 10, noticed=True).agreed
    assert meeting.say("a", step).agreed == step
    meeting.restart()

    with pytest.raises(Refused, match=f"have stopped at step {step}, and b has made 99"):
        meeting.say("b", 99)


def test_one_that_is_making_a_step_beyond_it_has_not_come_to_the_step():
    meeting = Meeting(b=10)
    step = meeting.say("a", 10, noticed=True).agreed
    assert meeting.say("b", step, allowed=step + 1, alone=True).agreed == step

    later = meeting.say("b", step, allowed=step + 1).agreed

    assert later > step
    assert meeting.say("b", step + 1, allowed=step + 1).agreed == later
    assert meeting.say("a", step).agreed == later


def test_one_that_stopped_without_an_answer_stops_all_there_or_they_are_refused():
    meeting = Meeting(b=10, c=10)
    step = meeting.say("a", 10, noticed=True).agreed
    assert meeting.say("b", step + 1).agreed > step

    assert meeting.say("a", step, saved=True).agreed == step

    assert meeting.say("c", step).agreed == step
    with pytest.raises(Refused, match=f"have stopped at step {step}"):
        meeting.say("b", step + 2)


def test_a_dispatcher_without_memory_hears_from_one_that_stopped_where_that_was():
    meeting = Meeting()
    meeting.say("a", 100, saved=True, allowed=100)

    assert meeting.say("b", 98, noticed=True, allowed=100).agreed == 100
    assert meeting.say("c", 100, allowed=100).agreed == 100
    assert not meeting.say("a", 100, saved=True).all_saved
    with pytest.raises(Refused, match="have stopped at step 100"):
        meeting.say("d", 101)


def test_a_file_of_before_reads_on_without_saying_whether_a_trainer_has_stopped():
    meeting = Meeting()
    written = [b'["TrainerKnown","g","a"]', b'["Noticed","g"]', b'["Agreed","g",12]']
    meeting.kept += [msgspec.json.decode(line, type=Fact) for line in written]
    meeting.restart()

    assert meeting.say("a", 12).agreed == 12
    assert meeting.agreements.facts()[-1] == Agreed("g", 12, fixed=True)


class Trainer:
    """Steps of a trainer, as the handler makes them: reports and answers take their time."""

    def __init__(self):
        self.steps = self.allowed = self.agreed = self.bound = self.stopped = 0
        self.noticed = self.alone = self.dead = False
        self.answer = None

    def report(self, **more):
        return {
            "steps": self.steps,
            "noticed": self.noticed,
            "allowed": max(self.bound, self.allowed),
            "alone": self.alone,
            **more,
        }

    def hear(self, verdict):
        self.allowed, self.agreed, self.alone = verdict.allowed, verdict.agreed, False

    @property
    def at_the_step(self):
        return self.agreed and self.steps >= self.agreed

    def step(self):
        if self.steps < self.allowed and not self.at_the_step:
            self.bound = max(self.allowed, self.steps + 1)
            self.steps += 1

    def run(self):
        """Make all steps that it has leave for, 40 at most."""
        for _ in range(40):
            self.step()


KINDS = ("step", "run", "report", "send", "hear", "lose", "notice", "restart", "die")

events = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, 3),
    ),
    max_size=60,
)


@given(events, st.integers(1, 4), st.booleans())
def test_all_that_live_stop_at_one_step_and_none_is_ever_beyond(script, number, quick):
    meeting, now = Meeting(), 0.0
    trainers = [Trainer() for _ in range(number)]
    script = [("report", who) for who in range(number)] + script

    def send(who):
        one = trainers[who]
        rate = 20.0 if quick else 0.0
        one.answer = meeting.say(f"t{who}", now=now, rate=rate, **one.report())

    def come_to_the_step(who):
        """Stop where was agreed, as the handler does: it says so, and stops if that is still it."""
        send(who)
        one = trainers[who]
        one.hear(one.answer)
        if one.agreed == one.steps:
            one.stopped = one.steps

    for what, chosen in script:
        one = trainers[chosen % number]
        now += 0.01
        match what:
            case "restart":
                meeting.restart()
            case _ if one.dead or one.stopped:
                continue
            case "step":
                one.step()
            case "run":
                one.run()
            case "send":
                send(chosen % number)
            case "report":
                send(chosen % number)
                one.hear(one.answer)
            case "hear" if one.answer is not None:
                one.hear(one.answer)
            case "lose":
                one.answer = None
            case "notice":
                one.noticed = True
            case "die" if sum(not other.dead for other in trainers) > 1:
                one.dead = True
        if one.at_the_step and not one.dead:
            come_to_the_step(chosen % number)

    alive = [who for who, one in enumerate(trainers) if not one.dead]
    for _ in range(60):  # dead ones are given up meanwhile
        now += LEASE / 8
        for who in alive:
            one = trainers[who]
            if one.stopped:
                meeting.say(f"t{who}", now=now, **one.report(saved=True))
                continue
            send(who)
            one.hear(one.answer)
            one.run()
            if one.at_the_step:
                come_to_the_step(who)

    stops = {trainers[who].stopped for who in alive}
    if any(trainers[who].noticed for who in alive):
        assert len(stops) == 1
        assert 0 not in stops
    assert all(one.steps == one.stopped for one in trainers if one.stopped)


@given(events, st.integers(1, 4))
def test_one_that_goes_on_alone_stops_with_the_others_or_is_refused(script, number):
    meeting, now = Meeting(), 0.0
    trainers = [Trainer() for _ in range(number)]
    refused = set()

    def report(who, **more):
        one = trainers[who]
        try:
            one.hear(meeting.say(f"t{who}", now=now, **one.report(**more)))
        except Refused:
            refused.add(who)

    for what, chosen in [*script, *(("wait", who) for _ in range(40) for who in range(number))]:
        who = chosen % number
        one = trainers[who]
        now += LEASE / 50 if what == "wait" else 0.01
        if what == "restart":
            meeting.restart()
        elif who in refused:
            continue
        elif one.stopped:
            report(who, saved=True)
        elif what == "lose":  # nobody answers: steps without leave
            one.alone, one.bound = True, max(one.allowed, one.steps + 1)
            one.steps += 5
        elif what == "hear":  # the answer comes in the middle of a step without leave
            one.alone = one.steps >= one.allowed
            one.bound = max(one.allowed, one.steps + 1)
            report(who)
            one.steps += 1
        else:
            one.noticed |= what == "notice"
            one.step() if what == "step" else one.run()
            report(who)
            if one.at_the_step and who not in refused:
                report(who)
                one.stopped = one.steps if one.agreed == one.steps else 0

    stops = {one.stopped for who, one in enumerate(trainers) if who not in refused}
    if any(one.noticed for who, one in enumerate(trainers) if who not in refused):
        assert len(stops) == 1
        assert 0 not in stops
