import pytest

from penstock.errors import DatasetError
from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Codec, DatasetId, Mode, Versions
from penstock.reader.coordination import Coordination, coordination_of, is_ordered


def given(index=None, consumers=None, job="j", **changes):
    wanted = {"remainder": "drop", "ordered": False, "patience": None, "start_round": None}
    return coordination_of(index, consumers, job, **(wanted | changes))


def test_without_an_index_reads_are_not_coordinated():
    assert given() is None
    assert given(job=None) is None


def test_a_consumer_says_who_it_is_and_what_all_agree_on():
    asked = given(1, 4, remainder="pad", patience=0, start_round=7)

    assert asked == Coordination(1, 4, Remainder.PAD, False, 0, 7)

    versions = Versions(2, "3.11", "0")
    request = OpenIterationRequest(versions, DatasetId("d"), Mode.OFF, "j", 0, Codec.NONE)
    sent = asked.requested(request)
    assert (sent.num_consumers, sent.remainder, sent.ordered, sent.patience) == (4, "pad", False, 0)


def test_only_the_first_pass_begins_with_the_round_that_was_asked_for():
    asked = given(1, 4, start_round=7)

    assert asked.consumer(first=True).start_round == 7
    assert asked.consumer(first=False).start_round is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"index": 0}, "both or neither, not consumer_index=0 and num_consumers=None"),
        ({"consumers": 2}, "both or neither"),
        ({"index": 2, "consumers": 2}, "consumer_index must be below num_consumers, 2, not 2"),
        ({"index": True, "consumers": 2}, "consumer_index .*True"),
        ({"index": 0, "consumers": 0}, "num_consumers .*0"),
        ({"index": 0, "consumers": 2**40}, "num_consumers"),
        ({"index": 0, "consumers": 2, "job": None}, "num_consumers=2 needs a job_name"),
        ({"index": 0, "consumers": 2, "remainder": "fill"}, "'drop', 'pad' or 'repeat', not"),
        ({"index": 0, "consumers": 2, "patience": -1}, "patience .*-1"),
        ({"index": 0, "consumers": 2, "start_round": "9"}, "start_round .*'9'"),
        ({"index": 0, "consumers": 2, "ordered": True, "patience": 1}, "leave it out"),
        ({"remainder": "repeat"}, "remainder='repeat' is for coordinated reads"),
        ({"patience": 0}, "patience=0 is for coordinated reads"),
        ({"start_round": 0}, "start_round=0 is for coordinated reads"),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_named_with_a_remedy(wrong, words):
    with pytest.raises(DatasetError, match=words):
        given(**wrong)


def test_an_order_of_uncoordinated_reads_is_no_coordination():
    assert given(ordered=True) is None
    assert is_ordered(Mode.DYNAMIC, None, ordered=True)
    assert not is_ordered(Mode.OFF, None, ordered=False)


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.FILE, Mode.DATA, Mode.HINT], ids=lambda m: m.name)
def test_only_what_draws_splits_has_one_order(mode):
    with pytest.raises(DatasetError, match=r"ordered=True needs ShardingPolicy.DYNAMIC"):
        is_ordered(mode, None, ordered=True)


def test_trainers_that_share_a_window_have_no_one_order():
    with pytest.raises(DatasetError, match="cross_trainer_cache do not go together"):
        is_ordered(Mode.DYNAMIC, object(), ordered=True)


def test_consumers_of_one_order_read_no_rounds():
    asked = given(1, 4, ordered=True).without_rounds()
    versions = Versions(2, "3.11", "0")
    request = OpenIterationRequest(versions, DatasetId("d"), Mode.DYNAMIC, "j", 0, Codec.NONE)

    sent = asked.requested(request)

    assert (sent.ordered, sent.stride, sent.num_consumers) == (True, 4, None)
    assert asked.consumer(first=True).strided
    assert not given(1, 4).consumer(first=True).strided


@pytest.mark.parametrize(
    "asked", [{"remainder": "repeat"}, {"patience": 0}, {"start_round": 0}], ids=str
)
def test_what_only_rounds_have_is_refused_of_one_order(asked):
    with pytest.raises(DatasetError, match=r"is for rounds, and .* Leave \w+ out, or ordered"):
        given(0, 2, ordered=True, **asked).without_rounds()
