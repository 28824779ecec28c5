"""Joining a job: whatever a reader asks for differently is named."""

from dataclasses import fields, replace

import pytest

from penstock.errors import JobMismatch
from penstock.protocol.calls import JobParameters, OnError
from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Codec, DatasetId, Mode
from penstock_dispatcher.core.jobs import check_same
from penstock_dispatcher.core.state import DispatcherState

MADE = JobParameters(DatasetId("d"), Mode.DYNAMIC, Codec.NONE)
OTHERWISE = {
    "dataset": (DatasetId("e"), "dataset is 'd', not 'e'"),
    "mode": (Mode.OFF, "processing_mode is 'dynamic', not 'off'"),
    "codec": (Codec.LZ4, "compression is 'none', not 'lz4'"),
    "num_consumers": (2, "num_consumers is None, not 2"),
    "shared_cache": (True, "cross_trainer_cache is False, not True"),
    "target_workers": (TargetWorkers.LOCAL, "target_workers is 'AUTO', not 'LOCAL'"),
    "ordered": (True, "ordered is False, not True"),
    "remainder": (Remainder.PAD, "remainder is 'drop', not 'pad'"),
    "patience": (3, "patience is None, not 3"),
    "when_full": ("wait", "when_full is '', not 'wait'"),
    "dataset_id": ("corpus", "dataset_id is '', not 'corpus'"),
    "on_error": (OnError.SKIP, "on_error is 'raise', not 'skip'"),
    "max_errors": (5, "max_errors is None, not 5"),
    "shards": (2, r"number of shards \(the dispatcher's worker_addresses\) is 0, not 2"),
    "stride": (3, r"num_consumers \(with ordered=True\) is None, not 3"),
    "seed": (7, "seed is None, not 7"),
}


def test_every_parameter_of_a_job_is_compared():
    assert OTHERWISE.keys() == {field.name for field in fields(JobParameters)}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_reader_that_asks_otherwise_is_told_in_what(name):
    value, words = OTHERWISE[name]

    with pytest.raises(JobMismatch, match=rf"other parameters: its {words}\. "):
        check_same(DispatcherState(), "j", replace(MADE, **{name: value}), MADE)


def test_all_differences_are_named_at_once():
    asked = replace(MADE, **{name: value for name, (value, _) in OTHERWISE.items()})

    with pytest.raises(JobMismatch) as caught:
        check_same(DispatcherState(), "j", asked, MADE)

    for _, words in OTHERWISE.values():
        assert words.replace("\\", "") in str(caught.value)


def test_a_reader_that_asks_for_the_same_joins():
    check_same(DispatcherState(), "j", replace(MADE), MADE)
