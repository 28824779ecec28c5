"""One thread at a time changes an iterator, and once."""

import threading

import pytest

from penstock.dataset.turn import Turn
from penstock.errors import Reentered


def test_who_has_the_turn_does_not_get_it_again():
    turn = Turn()

    with pytest.raises(Reentered, match="set a flag"):
        turn.call(lambda: turn.call(bool, bool), bool)

    assert turn.call(lambda: "made", bool) == "made"
    assert turn.call(lambda: turn.call_at_once(lambda: "made", "busy"), bool) == "busy"


def test_the_turn_is_waited_for_and_the_wait_ends_when_there_is_no_point_in_it():
    turn, inside, over = Turn(), threading.Event(), threading.Event()
    thread = threading.Thread(target=turn.call, args=(lambda: inside.set() or over.wait(60), bool))
    thread.start()
    inside.wait(60)

    def closed():
        raise ValueError

    with pytest.raises(ValueError):
        turn.call(bool, closed)
    assert turn.call_at_once(lambda: "made", "busy") == "busy"
    over.set()
    thread.join(60)
    assert turn.call_at_once(lambda: "made", "busy") == "made"
