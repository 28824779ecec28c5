import pytest

from penstock.errors import DatasetError
from penstock.protocol.cache import WhenFull
from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.types import Codec, DatasetId, Mode, Versions
from penstock.reader.trainer import CrossTrainerCache, Trainer, trainer_of


def test_a_trainer_has_a_name():
    assert CrossTrainerCache("one").trainer_id == "one"
    for wrong in ("", "  ", None, 3, "x" * 100_000):
        with pytest.raises(DatasetError, match="trainer_id"):
            CrossTrainerCache(wrong)


def test_a_trainer_says_who_it_is_and_what_all_agree_on():
    asked = trainer_of(CrossTrainerCache("one"), "wait", "j", coordinated=False)

    assert asked == Trainer("one", WhenFull.WAIT)
    versions = Versions(2, "3.11", "0")
    sent = asked.requested(
        OpenIterationRequest(versions, DatasetId("d"), Mode.OFF, "j", 0, Codec.NONE)
    )
    assert (sent.trainer, sent.when_full) == ("one", "wait")


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
def test_what_contradicts_itself_is_named_with_a_remedy(cache, when_full, job, coordinated, words):
    with pytest.raises(DatasetError, match=words):
        trainer_of(cache, when_full, job, coordinated=coordinated)
