"""More jobs, readers and datasets than there may be are refused by the name of the bound."""

import pytest

from penstock.errors import Overloaded
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.types import Codec, Failure, Mode
from penstock_dispatcher.core.events import (
    CloseReaderStream,
    OpenIteration,
    ReaderDisconnected,
    Tick,
)
from penstock_dispatcher.core.settings import CoreSettings
from tests.dispatcher.core.driver import VERSIONS, DrivenCore
from tests.openings import opening


class Life(DrivenCore):
    """A core with one dataset and few of everything."""

    def __init__(self, **bounds):
        super().__init__(SplitProviderSpec((".0",), 100), settings=CoreSettings(**bounds))

    def reply(self, event):
        reply = super().reply(event)
        if isinstance(reply, Failure):
            raise reply.error()
        return reply

    def register(self, name):
        return self.registers(name, SplitProviderSpec((".0",), 100))

    def open(self, job, repetition=0, who="ann"):
        request = opening(VERSIONS, "d", Mode.DYNAMIC, job, repetition, Codec.NONE)
        return self.reply(OpenIteration(1, request, 5, who=who)).iteration

    def beat(self, session, iteration):
        """Send a first heartbeat; return the error that ends the reader's stream, if one does."""
        self.beats += 1
        beat = ReaderHeartbeat(iteration, session, None, self.beats, process=ReaderProcess("h", 1))
        ended = [e for e in self.tell(beat) if isinstance(e, CloseReaderStream)]
        return ended[0].failure.error() if ended else None


def test_a_job_too_many_is_refused_and_those_that_are_open_are_not():
    life = Life(max_jobs=2)
    first = life.open("a")
    life.open("b")

    with pytest.raises(Overloaded, match="max_jobs"):
        life.open("c")
    assert life.open("a") == first


def test_a_job_that_is_forgotten_makes_room():
    life = Life(max_jobs=1, idle=1.0, reader_lease=1.0, sweep_interval=0.5)
    life.open("a")
    for _ in range(240):
        life.now += 0.25
        life.tell(Tick())

    assert life.open("b")


def test_an_identity_that_has_all_jobs_it_may_leaves_others_theirs_and_may_read_them():
    life = Life(max_jobs_per_identity=2, idle=1.0, reader_lease=1.0, sweep_interval=0.5)
    first = life.open("a")
    life.open("b")

    with pytest.raises(Overloaded, match="ann opened 2 jobs.*max_jobs_per_identity"):
        life.open("c")
    assert life.open("a") == first
    assert life.open("c", who="bob")
    for _ in range(240):
        life.now += 0.25
        life.tell(Tick())
    assert life.open("d")  # those before are forgotten
    assert len(life.core.ctx.soft_state.opened_by) == 1


def test_a_reader_too_many_is_refused_until_another_is_gone():
    life = Life(max_readers=2)
    job = life.open("a")
    assert life.beat("x", job) is None
    assert life.beat("y", job) is None

    refused = life.beat("z", job)
    again = life.beat("y", job)
    life.tell(ReaderDisconnected(job, "x"))

    assert isinstance(refused, Overloaded)
    assert "max_readers" in str(refused)
    assert refused.retryable
    assert again is None
    assert life.beat("z", job) is None


def test_a_dataset_too_many_is_refused_and_a_known_one_is_not():
    life = Life(max_datasets=2)
    life.register("e")

    with pytest.raises(Overloaded, match="max_datasets"):
        life.register("f")
    assert life.register("d") == "d"
