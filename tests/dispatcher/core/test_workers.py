"""Workers of a host that is to be taken away."""

from dataclasses import replace

import pytest

from penstock.protocol.control import WorkerHeartbeat
from penstock.protocol.nearness import UNKNOWN_WORKER
from penstock_dispatcher.core.events import DrainHost, DrainWorker, ReplyToCall, SendCommand
from tests.dispatcher.core.driver import VERSIONS
from tests.dispatcher.core.one_order import World


class Hosts(World):
    """Workers on hosts, each of which is known by the boot id of its kernel."""

    def __init__(self, **boot_ids):
        self.boot_ids = boot_ids
        super().__init__(40, workers=0)
        for worker in boot_ids:
            self.comes(worker)

    def comes(self, worker):
        profile = replace(UNKNOWN_WORKER, boot_id=self.boot_ids[worker])
        self.tell(WorkerHeartbeat(worker, 1, -1, versions=VERSIONS, profile=profile))

    def leaves(self, boot_id):
        """Return which workers are told to drain, and what the caller is told."""
        effects = self.tell(DrainHost(9, boot_id))
        (answer,) = [e.answer for e in effects if isinstance(e, ReplyToCall)]
        commands = [e for e in effects if isinstance(e, SendCommand) and e.command.drain]
        return sorted(e.worker for e in commands), answer


def test_workers_of_the_host_are_told_to_drain_and_others_are_not():
    world = Hosts(w1="a", w2="b", w3="a")

    assert world.leaves("a") == (["w1", "w3"], ("w1", "w3"))
    assert world.leaves("a")[1] == ("w1", "w3")  # said again, it changes nothing
    assert [one.leaving for one in world.core.ctx.soft_state.workers.values()] == [
        *(True, False, True)
    ]


def test_where_there_are_no_others_they_stay():
    world = Hosts(w1="a", w2="b")
    assert world.leaves("b") == (["w2"], ("w2",))

    assert world.leaves("a") == ([], ())  # the other one leaves already


@pytest.mark.parametrize("boot_id", ["", "elsewhere"])
def test_a_host_without_workers_is_no_error(boot_id):
    world = Hosts(w1="", w2="b")

    assert world.leaves(boot_id) == ([], ())


def test_who_waits_for_a_worker_to_drain_is_told_when_its_host_leaves():
    world = Hosts(w1="a", w2="b")
    world.leaves("a")
    world.tell(DrainWorker(3, "w1"))

    revision = world.core.state.revision
    effects = world.tell(WorkerHeartbeat("w1", 1, revision, draining=True))

    assert ReplyToCall(3, None) in effects
