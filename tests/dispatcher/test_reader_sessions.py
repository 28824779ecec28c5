"""How many readers one identity may have, however many streams they come by."""

import pytest

from penstock.credentials.per_identity import PerIdentity, answer_to
from penstock.errors import Overloaded
from penstock_dispatcher.reader_sessions import ReaderSessions


@pytest.fixture
def of_identity():
    return PerIdentity(2, "readers connected", "max_readers_per_identity")


async def test_readers_of_one_stream_are_counted_one_by_one_and_leave_with_it(of_identity):
    answer_to("ann")
    sessions = ReaderSessions(of_identity)
    for _ in range(3):  # heartbeats
        sessions.note("x", 7)
    sessions.note("y", 8)

    with pytest.raises(Overloaded, match="ann has 2 readers.*max_readers_per_identity"):
        sessions.note("z", 8)
    assert {name: sessions[name] for name in sessions} == {"x": 7, "y": 8}
    sessions.close()
    assert len(of_identity) == 0


async def test_one_identity_that_has_all_it_may_leaves_others_theirs(of_identity):
    answer_to("ann")
    streams = [ReaderSessions(of_identity) for _ in range(2)]
    for number, stream in enumerate(streams):
        stream.note(f"{number}", 1)
    answer_to("bob")
    ReaderSessions(of_identity).note("x", 1)

    answer_to("ann")
    third = ReaderSessions(of_identity)
    with pytest.raises(Overloaded):
        third.note("z", 1)
    streams[0].close()
    third.note("z", 1)
