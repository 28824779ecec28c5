"""What the readers of a job must agree on, as `distribute` is asked for it."""

import pytest

from penstock.errors import DatasetError
from penstock.protocol.cache import WhenFull
from penstock.protocol.calls import JobParameters, OnError
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Codec, DatasetId, Mode
from penstock.reader.agreement import (
    Coordination,
    CrossTrainerCache,
    Trainer,
    coordination_of,
    error_policy_of,
    is_ordered,
    trainer_of,
)

PARAMETERS = JobParameters(DatasetId("d"), Mode.DYNAMIC, Codec.NONE)


def given(index=None, consumers=None, job="j", **changes):
    wanted = {"remainder": "drop", "ordered": False, "patience": None, "start_round": None}
    return coordination_of(index, consumers, job, **(wanted | changes))


def test_without_an_index_reads_are_not_coordinated():
    assert given() is None
    assert given(job=None) is None


def test_a_consumer_says_who_it_is_and_what_all_agree_on():
    asked = given(1, 4, remainder="pad", patience=0, start_round=7)

    assert asked == Coordination(1, 4, Remainder.PAD, False, 0, 7)

    sent = asked.requested(PARAMETERS)
    assert (sent.num_consumers, sent.remainder, sent.ordered, sent.patience) == (
        4,
        Remainder.PAD,
        False,
        0,
    )


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

    sent = asked.requested(PARAMETERS)

    assert (sent.ordered, sent.stride, sent.num_consumers) == (True, 4, None)
    assert asked.consumer(first=True).strided
    assert not given(1, 4).consumer(first=True).strided


@pytest.mark.parametrize(
    "asked", [{"remainder": "repeat"}, {"patience": 0}, {"start_round": 0}], ids=str
)
def test_what_only_rounds_have_is_refused_of_one_order(asked):
    with pytest.raises(DatasetError, match=r"is for rounds, and .* Leave \w+ out, or ordered"):
        given(0, 2, ordered=True, **asked).without_rounds()


def test_a_trainer_has_a_name():
    assert CrossTrainerCache("one").trainer_id == "one"
    for wrong in ("", "  ", None, 3, "x" * 100_000):
        with pytest.raises(DatasetError, match="trainer_id"):
            CrossTrainerCache(wrong)


def test_a_trainer_says_who_it_is_and_what_all_agree_on():
    asked = trainer_of(CrossTrainerCache("one"), "wait", "j", coordinated=False)

    assert asked == Trainer("one", WhenFull.WAIT)
    assert asked.requested(PARAMETERS).when_full == "wait"


def test_without_a_cache_there_is_no_trainer():
    assert trainer_of(None, "skip", None, coordinated=True) is None


@pytest.mark.parametrize(
    ("cache", "when_full", "job", "coordinated", "words"),
    [
        (None, "wait", "j", False, "when_full='wait' is for a cross_trainer_cache"),
        (None, "block", "j", False, "'skip' or 'wait', not 'block'"),
        ("one", "skip", "j", False, r"CrossTrainerCache\(trainer_id\), not 'one'"),
        (CrossTrainerCache("one"), "skip", None, False, "needs a job_name"),
        (CrossTrainerCache("one"), "skip", "j", True, "num_consumers exclude each other"),
    ],
)
def test_a_cache_that_contradicts_other_arguments_is_named_with_a_remedy(
    cache, when_full, job, coordinated, words
):
    with pytest.raises(DatasetError, match=words):
        trainer_of(cache, when_full, job, coordinated=coordinated)


@pytest.mark.parametrize("most", [None, 0, 7])
def test_what_is_asked_for_is_requested(most):
    asked = error_policy_of("skip", most, coordinated=False)

    sent = asked.requested(PARAMETERS)

    assert (sent.on_error, sent.max_errors) == (OnError.SKIP, most)


def test_errors_are_raised_unless_something_else_is_asked_for():
    sent = error_policy_of("raise", None, coordinated=True).requested(PARAMETERS)

    assert (sent.on_error, sent.max_errors) == (OnError.RAISE, None)


@pytest.mark.parametrize(
    ("on_error", "max_errors", "coordinated", "words"),
    [
        ("ignore", None, False, "on_error must be 'raise' or 'skip', not 'ignore'"),
        (None, None, False, "on_error must be 'raise' or 'skip', not None"),
        ("raise", 3, False, "max_errors=3 is for on_error='skip'"),
        ("skip", -1, False, "max_errors .*-1"),
        ("skip", 1.5, False, "max_errors .*1.5"),
        ("skip", True, False, "max_errors .*True"),
        ("skip", None, True, "num_consumers exclude each other.*ignore_errors"),
    ],
)
def test_what_makes_no_sense_is_named_with_a_remedy(on_error, max_errors, coordinated, words):
    with pytest.raises(DatasetError, match=words):
        error_policy_of(on_error, max_errors, coordinated=coordinated)


def test_under_static_sharding_nothing_is_skipped():
    with pytest.raises(DatasetError, match="static sharding exclude each other.*ignore_errors"):
        error_policy_of("skip", None, coordinated=False, static=True)
