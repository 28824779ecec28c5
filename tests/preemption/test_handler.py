"""A training loop that stops when it is told to."""

import os
import signal
import threading
import time

import pytest

from penstock import Dataset, PreemptionHandler, TerminationConfig
from penstock.errors import Closed, ConfigError, Refused, Unavailable
from penstock.protocol.calls import PreemptionVerdict

LIMIT = 2000


class Loop:
    """Steps of a loop, and what was saved of it."""

    def __init__(self, watcher=None, exit_fn=lambda: None, grace=None, iterators=(), save=None):
        self.saved = []
        self.save = save
        config = TerminationConfig(watcher, exit_fn, grace)
        self.handler = PreemptionHandler(iterators, self._save, config)

    def _save(self, step, states):
        if self.save is not None:
            self.save()
        self.saved.append((step, states))

    def run(self, steps=LIMIT):
        """Make steps until it ends; return how many were made."""
        for made in range(steps):
            try:
                self.handler.run(time.sleep, 0.002)
            except Closed:
                return made
        return steps


@pytest.fixture
def begun(monkeypatch):
    monkeypatch.setenv("PENSTOCK_NO_PLATFORM", "1")
    loops = []

    def begin(*args, **options):
        loops.append(Loop(*args, **options))
        return loops[-1]

    yield begin
    for loop in loops:
        loop.handler.close()


def test_without_a_notice_steps_are_made_and_counted(begun):
    loop = begun()

    assert loop.run(50) == 50
    assert loop.handler.total_run_calls == 50
    assert not loop.handler.noticed


@pytest.mark.slow
def test_a_signal_stops_at_a_step_and_saves_that(begun):
    loop = begun()
    loop.run(20)
    os.kill(os.getpid(), signal.SIGTERM)

    made = loop.run()

    assert made < LIMIT
    assert [step for step, _ in loop.saved] == [20 + made] == [loop.handler.total_run_calls]


class Answers:
    """Where trainers meet: *answer* says what a report is told."""

    def __init__(self, answer):
        self.answer, self.said = answer, []

    def report(self, said):
        self.said.append(said)
        return self.answer(said)

    def leave_host(self):
        pass


@pytest.fixture
def meeting(monkeypatch):
    def at(answer):
        there = Answers(answer)
        monkeypatch.setattr("penstock.preemption.handler.meeting_of", lambda *_: there)
        return there

    return at


def test_who_hears_between_two_steps_that_it_is_at_the_agreed_one_makes_no_other(begun, meeting):
    told = PreemptionVerdict(7)
    meeting(lambda _: told)
    loop = begun()
    assert loop.run(7) == 7

    told = PreemptionVerdict(7, noticed=True, agreed=7, all_saved=True)

    assert loop.run() == 0
    assert [step for step, _ in loop.saved] == [7]


def test_who_is_beyond_the_agreed_step_says_so_and_stops_at_a_later_one(begun, meeting):
    def answer(said):
        if said.leaving or said.saved:
            return PreemptionVerdict(12, noticed=True, agreed=12, all_saved=True)
        return PreemptionVerdict(12, noticed=said.steps > 9, agreed=12 if said.steps > 9 else 0)

    meeting(answer)
    loop = begun()
    assert loop.run(9) == 9
    loop.handler._hear(PreemptionVerdict(8, noticed=True, agreed=8))

    assert loop.run() == 3
    assert [step for step, _ in loop.saved] == [12]


def test_before_it_stops_it_says_where_it_is(begun, meeting):
    def answer(said):
        return PreemptionVerdict(5, noticed=True, agreed=5, all_saved=True)

    there = meeting(answer)
    loop = begun()
    loop.save = lambda: places.append(there.said[-1].steps)
    places = []

    loop.run()

    assert places == [5]


def test_a_report_says_up_to_where_it_may_make_steps(begun, meeting):
    there = meeting(lambda _: PreemptionVerdict(40))
    loop = begun()
    loop.run(3)

    loop.handler.close()

    assert (there.said[-1].steps, there.said[-1].allowed, there.said[-1].alone) == (3, 40, False)


def test_without_answers_it_goes_on_and_says_so_when_there_is_one(begun, meeting, monkeypatch):
    monkeypatch.setattr("penstock.preemption.handler.AWAY", 0.1)
    away = [PreemptionVerdict(2)]

    def answer(said):
        if not away:
            raise Unavailable("away")
        return away.pop() if len(away) == 1 else PreemptionVerdict(said.steps + 100)

    there = meeting(answer)
    loop = begun()

    assert loop.run(20) == 20
    away += [PreemptionVerdict(0)] * 3
    loop.handler.close()

    assert there.said[-1].alone
    assert there.said[-1].allowed >= 20


@pytest.fixture
def answered_once(meeting, monkeypatch):
    """Where a trainer is told once that it may make two steps; *then* is what it meets later."""
    monkeypatch.setattr("penstock.preemption.handler.AWAY", 0.1)

    def at(then):
        def answer(said):
            if said.leaving or len(there.said) == 1:
                return PreemptionVerdict(2)
            raise then[min(said.steps, len(then)) - 1]

        there = meeting(answer)
        return there

    return at


def test_it_says_that_it_goes_on_without_leave_before_it_does(begun, answered_once):
    there = answered_once([Unavailable("away")])
    loop = begun()
    loop.run(2)

    assert loop.handler.run(lambda: there.said[-1].alone)


def test_one_that_goes_on_alone_while_the_others_stop_is_refused(begun, answered_once):
    answered_once([Unavailable("away")] * 3 + [Refused("they have stopped")])
    loop = begun()

    with pytest.raises(Refused, match="they have stopped"):
        loop.run()

    assert loop.handler.total_run_calls >= 4


@pytest.mark.slow
def test_the_watcher_of_ones_own_is_asked_and_what_it_raises_ends_nothing(begun, caplog):
    answers = iter([False, ValueError("no answer"), ValueError("no answer"), True])

    def watch():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    loop = begun(watch)

    assert loop.run() < LIMIT
    assert len(loop.saved) == 1
    assert caplog.text.count("the preemption watcher failed") == 1


def test_the_states_of_iterators_are_saved_and_go_on_from_there(begun):
    elements = iter(Dataset.range(10**6))
    seen = []
    loop = begun(lambda: len(seen) > 30, iterators=[elements])
    with pytest.raises(Closed):
        for _ in range(10**6):
            seen.append(int(loop.handler.run(next, elements)))
            time.sleep(0.001)

    ((step, (state,)),) = loop.saved

    assert step == len(seen) == seen[-1] + 1
    assert int(next(Dataset.range(10**6).iterator(state))) == step


def test_a_scope_is_a_step_too(begun):
    loop = begun(lambda: True)

    with pytest.raises(Closed):
        for _ in range(LIMIT):
            with loop.handler.watch_preemption_scope():
                time.sleep(0.002)

    assert [step for step, _ in loop.saved] == [loop.handler.total_run_calls]


def test_by_default_it_exits_with_a_code_that_asks_for_a_restart(begun):
    loop = begun(lambda: True, exit_fn=None)

    with pytest.raises(SystemExit) as ended:
        loop.run()

    assert ended.value.code == 42
    assert len(loop.saved) == 1


class Told:
    """Where trainers meet: this host is told of once."""

    def __init__(self, error=None):
        self.error, self.times, self.told = error, 0, threading.Event()

    def __call__(self):
        self.times += 1
        self.told.set()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [None, Unavailable("it is away")])
def test_by_a_notice_for_the_host_its_data_workers_leave_too(begun, monkeypatch, error):
    told = Told(error)
    monkeypatch.setattr("penstock.preemption.meeting.AloneHere.leave_host", lambda _: told())
    loop = begun(watcher=lambda: True)

    assert told.told.wait(LIMIT)
    loop.run()
    assert told.times == 1
    assert len(loop.saved) == 1


def test_a_signal_is_for_its_process_alone(begun, monkeypatch):
    told = Told()
    monkeypatch.setattr("penstock.preemption.meeting.AloneHere.leave_host", lambda _: told())
    loop = begun()
    os.kill(os.getpid(), signal.SIGTERM)
    loop.run()

    assert told.times == 0


@pytest.mark.slow
def test_a_second_notice_and_one_within_the_save_change_nothing(begun):
    def again():
        os.kill(os.getpid(), signal.SIGTERM)

    loop = begun(save=again)
    loop.run(5)
    again()
    again()
    loop.run()

    assert len(loop.saved) == 1


@pytest.mark.slow
def test_within_the_grace_period_training_goes_on(begun):
    loop = begun(grace=0.6)
    loop.save = lambda: time.sleep(0.05)
    loop.handler.save()
    loop.run(5)
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGTERM)

    loop.run()

    stopped = time.monotonic() - began
    assert stopped > 0.6 - 3 * 0.06 - 0.02
    assert len(loop.saved) == 2


def test_a_grace_period_that_is_too_short_is_said_once_it_is_known(begun, caplog):
    loop = begun(grace=0.01)
    loop.save = lambda: time.sleep(0.02)

    loop.handler.save()

    assert "grace_period is 0.01 s, and a save takes" in caplog.text


def test_a_watcher_that_blocks_does_not_hold_up_training(begun):
    never = threading.Event()
    loop = begun(lambda: never.wait(30))

    assert loop.run(20) == 20
    never.set()


def test_signals_are_given_back(begun):
    before = signal.getsignal(signal.SIGTERM)
    loop = begun()
    assert signal.getsignal(signal.SIGTERM) is not before

    loop.handler.close()

    assert signal.getsignal(signal.SIGTERM) is before


def test_one_handler_a_process(begun):
    begun()

    with pytest.raises(ConfigError, match="has a PreemptionHandler already"):
        PreemptionHandler([], lambda step, states: None)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TerminationConfig(termination_watcher_fn=3), "termination_watcher_fn must be a"),
        (lambda: TerminationConfig(exit_fn="x"), "exit_fn must be a function, not 'x'"),
        (lambda: TerminationConfig(grace_period=-1), "grace_period must be .* not -1"),
        (lambda: TerminationConfig(grace_period=True), "not True"),
        (lambda: PreemptionHandler([], None), "save_fn must be a function, not None"),
        (lambda: PreemptionHandler([], print, 7), "config must be a TerminationConfig, not 7"),
        (lambda: PreemptionHandler([], print, group=""), "group must be a name, not ''"),
    ],
)
def test_what_is_of_another_kind_is_named(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_an_exit_fn_that_returns_ends_the_block_and_the_program_goes_on_behind_it(begun):
    said, steps = [], 0
    loop = begun(lambda: True, exit_fn=lambda: said.append("bye"))

    with loop.handler as handler:
        for steps in range(LIMIT):
            handler.run(time.sleep, 0.002)

    assert said == ["bye"]
    assert [step for step, _ in loop.saved] == [steps] == [handler.total_run_calls]


def test_a_loop_may_end_by_itself_when_its_exit_fn_returned(begun):
    stopped = threading.Event()
    loop = begun(lambda: True, exit_fn=stopped.set)

    with loop.handler as handler:
        while not stopped.is_set():
            handler.run(time.sleep, 0.002)

    assert [step for step, _ in loop.saved] == [handler.total_run_calls]


def test_the_block_ends_for_nothing_else(begun):
    loop = begun(lambda: True)
    loop.run()

    with pytest.raises(Closed, match="exit_fn returned: leave the loop"):
        loop.handler.run(time.sleep, 0)
    with pytest.raises(Closed, match="of another"), loop.handler:
        raise Closed("of another")
