"""A trainer's word with the dispatcher."""

import threading

import pytest

from penstock.errors import Refused, Unavailable
from penstock.preemption.meeting import AloneHere, AtDispatcher, Reports
from penstock.protocol.calls import PreemptionReport, PreemptionVerdict


class Told:
    """A meeting that answers what it is given, in turn; the last again and again."""

    def __init__(self, *answers):
        self.answers, self.reports = list(answers), 0
        self.reported = threading.Event()

    def report(self, said):
        self.reports += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if self.reports > 2:
            self.reported.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


def reports(meeting, heard, interval=60.0):
    return Reports(meeting, lambda: PreemptionReport("g", "t", 3), heard.append, interval)


def test_a_trainer_alone_agrees_with_itself():
    alone = AloneHere()
    alone.report(PreemptionReport("g", "t", 3))

    assert alone.report(PreemptionReport("g", "t", 4, noticed=True)).agreed >= 4


def test_what_is_told_is_passed_on():
    heard = []

    assert reports(Told(PreemptionVerdict(5)), heard).now()
    assert heard == [PreemptionVerdict(5)]


def test_while_nobody_answers_it_says_so_once_and_goes_on(caplog):
    heard = []
    speaking = reports(Told(Unavailable("away"), Unavailable("away"), PreemptionVerdict(5)), heard)

    answered = [speaking.now() for _ in range(3)]

    assert answered == [False, False, True]
    assert caplog.text.count("training continues") == 1
    assert speaking.silent_for == 0
    assert heard == [PreemptionVerdict(5)]


def test_a_group_that_has_stopped_without_it_is_an_error():
    with pytest.raises(Refused, match="have stopped"):
        reports(Told(Refused("they have stopped")), []).now()


def test_a_refusal_ends_the_silence_before_it():
    speaking = reports(Told(Unavailable("away"), Refused("they have stopped")), [])
    assert not speaking.now()

    with pytest.raises(Refused):
        speaking.now()

    assert speaking.silent_for == 0


def test_a_thread_reports_again_and_again_until_it_is_stopped():
    meeting = Told(PreemptionVerdict(5))
    speaking = reports(meeting, [], interval=0.01)
    speaking.start()

    assert meeting.reported.wait(20)
    speaking.stop()


def test_nobody_at_an_address_is_no_answer():
    assert not reports(AtDispatcher("127.0.0.1:1"), []).now()
