"""A reader of a cached job: whose it is, and what its loop is told of what it does not get."""

import pytest

from penstock.errors import SaveFailed
from penstock.protocol.cache import CacheView
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import IterationId
from penstock.reader.core.effects import TellLog
from penstock.reader.core.limits import ByteLimit
from penstock.reader.core.session_core import NoElement
from penstock.reader.core.state_machine import ReaderCore
from tests.reader.core.driven_core import LEASE, DrivenCore


def driven(trainer="x"):
    """Return a reader of *trainer* that reads task 1."""
    reader = DrivenCore()
    limit = ByteLimit(64 << 20)
    reader.core = ReaderCore(IterationId(1), "token", LEASE, limit, trainer=trainer)
    reader.view((1, 1, "w1"), cache=CacheView())
    return reader


def lines(reader):
    return [effect.line for effect in reader.effects() if isinstance(effect, TellLog)]


def test_it_says_whose_it_is():
    reader = driven()

    (request,) = reader.subscribes()
    assert request.trainer == "x"
    assert reader.core.heartbeat(0.0).trainer == "x"
    assert driven("").subscribes()[0].trainer == ""


def test_a_loop_is_told_of_skips_once_a_minute_as_long_as_there_are_more():
    reader = driven()
    said = []
    for second in range(150):
        reader.now = float(second)
        reader.view((1, 1, "w1"), cache=CacheView(skipped=10 * min(second, 100)))
        said += [(second, line.partition(" ")[0]) for line in lines(reader)]

    assert said == [(1, "10"), (61, "610"), (121, "1,000")]
    assert reader.core.skipped == 1000


def test_the_line_says_what_to_do():
    reader = driven()

    reader.view((1, 1, "w1"), cache=CacheView(skipped=1))

    assert lines(reader) == [
        (
            "1 element fell out of the window before trainer 'x' read them: it is slower than "
            "others, or was not heard of for a while; when_full='wait' has all wait for who is"
        )
    ]
    reader.now = 100.0
    reader.view((1, 1, "w1"), cache=CacheView(skipped=1))
    assert lines(reader) == []


def test_a_loop_is_told_once_what_came_before_it():
    reader = driven()

    reader.view((1, 1, "w1"), cache=CacheView(before=80))
    (line,) = lines(reader)
    assert line.startswith("80 elements had left the window before trainer 'x' came")
    reader.view((1, 1, "w1"), cache=CacheView(before=95))

    assert lines(reader) == []
    assert reader.core.skipped == 0


def test_what_is_known_of_skips_stays_when_a_view_says_nothing():
    reader = driven()
    reader.view((1, 1, "w1"), cache=CacheView(skipped=7))

    reader.view((1, 1, "w1"))

    assert reader.core.skipped == 7
    assert DrivenCore().core.skipped == 0


def test_what_its_trainer_skipped_counts_as_acked():
    reader = driven()
    reader.frame(0, 10)
    assert reader.pull() == (1, 0, 10)

    reader.frame(30, 40, floor=30)

    assert reader.core.tasks[1].acked == AckedSet(30)
    assert reader.pull() == (1, 30, 40)
    assert reader.core.acks.consumed == 20


def test_its_pass_ends_while_others_read_on():
    reader = driven()
    reader.frame(0, 10)
    reader.pull()

    reader.view(finished=True, cache=CacheView(skipped=3))

    assert reader.pull() is NoElement.END
    assert reader.core.skipped == 3


def test_its_place_cannot_be_saved():
    reader = driven()

    with pytest.raises(SaveFailed, match="other trainers move the window"):
        reader.core.save("", 1.0, 0.0)

    assert reader.core.save_state.barrier is None
