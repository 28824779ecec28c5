"""Fields of dataclasses in messages, as they are compiled for a class."""

import pickle
from dataclasses import FrozenInstanceError, dataclass

import pytest

from penstock.protocol.control import AttemptProgress, ElementCounts
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet
from penstock.protocol.splits import Split
from penstock.protocol.types import Checkpoint
from penstock.wire._pb import common_pb2, dispatcher_pb2
from penstock.wire.codec import form
from penstock.wire.field_code import scalar, scalars, written

PROGRESS = form(AttemptProgress)
NAMES = scalars("names", tuple)


@dataclass(frozen=True)
class WithDict:
    start: int


@dataclass(slots=True)
class WithSlots:
    start: int


def test_what_is_all_zeros_is_not_sent_and_comes_back_as_the_one_that_all_have():
    sent = PROGRESS.encode(AttemptProgress(1, 5, AckedSet(5)))

    assert not dispatcher_pb2.AttemptProgress.FromString(sent).HasField("counts")
    assert not dispatcher_pb2.AttemptProgress.FromString(sent).acked.HasField("more")
    assert PROGRESS.decode(sent).acked.more is NO_RANGES
    assert PROGRESS.decode(sent).counts is AttemptProgress(0, 0, NOTHING_ACKED).counts


def test_zeros_that_somebody_sends_all_the_same_are_read_as_zeros():
    message = dispatcher_pb2.AttemptProgress(attempt=1)
    message.acked.more.SetInParent()
    message.counts.SetInParent()

    read = PROGRESS.decode(message.SerializeToString())

    assert read == AttemptProgress(1, 0, NOTHING_ACKED, counts=ElementCounts())


def test_maps_that_are_empty_are_not_shared():
    first, other = (PROGRESS.decode(b"").trainers for _ in range(2))

    assert first == other == {}
    assert first is not other


def test_what_is_read_is_as_frozen_and_as_equal_as_what_was_sent():
    read = PROGRESS.decode(PROGRESS.encode(AttemptProgress(1, 5, AckedSet(5), Checkpoint(5))))

    assert type(read) is AttemptProgress
    assert read == AttemptProgress(1, 5, AckedSet(5), Checkpoint(5))
    assert hash(read.checkpoint) == hash(Checkpoint(5))
    assert pickle.loads(pickle.dumps(read)) == read
    with pytest.raises(FrozenInstanceError):
        read.attempt = 2


def test_what_looks_at_its_fields_when_it_is_made_does_so_when_it_is_read():
    _, get = written(Split, ["start", "stop", "names"], [scalar("start"), scalar("stop"), NAMES])

    assert get(common_pb2.Split(start=1, stop=3)) == Split(1, 3)
    with pytest.raises(ValueError, match="negative"):
        get(common_pb2.Split(start=3, stop=1))


@pytest.mark.parametrize("kind", [WithDict, WithSlots])
def test_a_class_is_made_as_it_is_written(kind):
    _, get = written(kind, ["start"], [scalar("start")])

    assert get(common_pb2.Split(start=7)) == kind(7)
