"""Members that end by themselves are started again."""

import threading

from penstock.errors import Closed
from penstock_cluster.member import look_after


class FakeMember:
    name, address = "worker 0", "a:1"

    def __init__(self, codes, over):
        self.codes, self.over, self.restarts = list(codes), over, 0

    @property
    def running(self):
        return not self.codes

    @property
    def exit_code(self):
        return self.codes[0] if self.codes else None

    def restart(self):
        self.restarts += 1
        self.codes.pop(0)
        if not self.codes:
            self.over.set()


def watched(codes, *, as_dispatcher=False):
    over, said = threading.Event(), []
    member = FakeMember(codes, over)

    def say(text):
        said.append(text)
        if "has left" in text:
            over.set()

    if as_dispatcher:
        look_after(member, [], over, say)
    else:
        look_after(None, [member], over, say)
    return member, said


def test_one_that_was_killed_is_started_again():
    member, said = watched([-9])

    assert member.restarts == 1
    assert said == ["[yellow]worker 0 ended (-9), and was started again"]


def test_a_worker_that_left_in_order_is_let_go():
    member, said = watched([0])

    assert member.restarts == 0
    assert said == ["worker 0 at a:1 has left, as it was told to"]


def test_a_dispatcher_is_started_again_however_it_ended():
    assert watched([0], as_dispatcher=True)[0].restarts == 1


def test_one_that_is_closed_meanwhile_ends_it():
    class Shut(FakeMember):
        def restart(self):
            raise Closed("its cluster was closed")

    over = threading.Event()
    look_after(None, [Shut([-9], over)], over, lambda _: None)
