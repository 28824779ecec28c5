"""A worker's core that runs one grouped task, and the consumers that read it."""

from dataclasses import replace

from penstock.protocol.ranges import NO_RANGES, AckedSet
from penstock.protocol.rounds import ELEMENT_NBYTES, Grouped, GroupsWanted, Remainder
from penstock.protocol.types import Checkpoint, Failure, WorkerId
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import RunFailed
from tests.worker.core.driven_task import RUN, DrivenTask

EACH = 100 + ELEMENT_NBYTES
"""The credit that each element takes, as `GroupConsumers.make` makes them."""


class GroupConsumers(DrivenTask):
    """See `DrivenTask`. Of each stream it notes (group, number, whether it is filler)."""

    def __init__(
        self, consumers=2, *, base=0, floor=0, state=0, remainder=Remainder.DROP, room=10**9
    ):
        grouped = Grouped(consumers, base, remainder)
        run = replace(RUN, checkpoint=Checkpoint(state), acked=AckedSet(floor), grouped=grouped)
        super().__init__(WorkerCore(WorkerId("host:1"), 7, None, room), run)

    def noted(self, header):
        assert header.count == 1 and header.ranges.spans == ((header.first, header.first + 1),)
        return [(header.group, header.first, header.filler)]

    def assign(self, *, floor=0, **how):
        return super().assign(**how, **({"acked": AckedSet(floor)} if floor else {}))

    # --- the runner ---

    def make(self, count=1, nbytes=100):
        for _ in range(count):
            self.make_frame(1, nbytes)

    def fail(self):
        fields = ("map(f)", self.made, "it broke", None, "")
        self.tell(RunFailed(self.runner, self.made, Failure("TransformError", fields)))

    # --- consumers ---

    def open(self, stream, index, group=0, *, reader=None, subscription=1, credit=10**6, floor=0):
        wants = None if index is None else GroupsWanted(index, group)
        who = index + 1 if reader is None else reader
        return self.open_stream(
            stream, who, subscription, AckedSet(floor), NO_RANGES, credit, wants
        )

    def ack(self, stream, floor=0, credit=0):
        return super().ack(stream, (0, floor), credit=credit)

    def numbers(self, stream):
        return [number for _, number, _ in self.sent.get(stream, [])]

    def groups(self, stream):
        return [group for group, _, _ in self.sent.get(stream, [])]
