"""Who is to get what an attempt makes."""

from dataclasses import replace

import pytest

from penstock.protocol.cache import WhenFull
from penstock.protocol.control import Cached, Grouped, TaskAssignment
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Codec, DatasetId, IterationId, TaskId
from penstock_worker.core.counters import AttemptCounters, WorkerCounters
from penstock_worker.core.first_come import FirstCome, policy_of
from penstock_worker.core.round_groups import RoundGroups
from penstock_worker.core.shared_cache import SharedCache
from penstock_worker.core.sharing_readers import Sender

RUN = TaskAssignment(TaskId(1), 0, 1, IterationId(1), DatasetId("d"), 0, Codec.NONE)


@pytest.mark.parametrize(
    ("assignment", "kind"),
    [
        (RUN, FirstCome),
        (replace(RUN, ordered=True), FirstCome),
        (replace(RUN, grouped=Grouped(2, 0, Remainder.DROP)), RoundGroups),
        (replace(RUN, cached=Cached("j", WhenFull.SKIP)), SharedCache),
    ],
    ids=lambda given: given.__name__ if isinstance(given, type) else "",
)
def test_how_a_job_is_read_decides_who_gets_what(assignment, kind):
    sender = Sender(assignment, AttemptCounters(0), WorkerCounters())

    assert isinstance(policy_of(assignment, sender), kind)
