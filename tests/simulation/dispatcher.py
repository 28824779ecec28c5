"""The dispatcher's body: its real core and journal, on lines and a disk of virtual time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.control import (
    ReaderHeartbeat,
    ReaderView,
    SplitRequest,
    WorkerHeartbeat,
    WorkerRefused,
)
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import IterationId
from penstock_dispatcher.core.events import (
    AppendFact,
    Call,
    CloseReaderStream,
    DrainWorker,
    Effect,
    Event,
    OpenIteration,
    ProbeWorker,
    ReaderDisconnected,
    RegisterDataset,
    ReplyToCall,
    ReportUncaught,
    SendCommand,
    SendView,
    SetWeights,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.facts import Fact
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from simulation.disk import Disk, SimJournal
from simulation.lines import End
from simulation.world import LawBroken, Process, World

SETTINGS = CoreSettings(
    worker_lease=3.0,
    reader_lease=6.0,
    consumer_lease=4.0,
    heartbeat_interval=1.0,
    refresh_interval=1.0,
    idle=60.0,
    sweep_interval=5.0,
    tick_interval=0.5,
)
DATE = 1.8e9


class Witness(Protocol):
    """Who holds against the laws what a dispatcher hears, decides and says."""

    def restarted(self, state: DispatcherState) -> None:
        """Know what a dispatcher found on its disk: what else was decided is void."""

    def decided(self, fact: Fact) -> None:
        """Hold a fact against what happened."""

    def heard(self, heartbeat: ReaderHeartbeat) -> None:
        """Know what a dispatcher was told."""

    def told(self, view: ReaderView) -> None:
        """Hold what a reader is going to be told against what was decided."""


class SimDispatcher(Process):
    """One life of the dispatcher."""

    def __init__(
        self,
        world: World,
        disk: Disk,
        ledger: Witness,
        streams: tuple[SplitProviderSpec, ...],
        settings: CoreSettings,
    ) -> None:
        super().__init__(world, "d")
        self.disk, self.ledger, self.streams = disk, ledger, streams
        self.journal = SimJournal(disk, self)
        self.core = DispatcherCore(self.journal.state, settings, self.now, DATE + self.now)
        self._ways: dict[object, End] = {}
        self._calls: dict[Call, End] = {}
        self._pushing = self._telling = False
        self._count = 0
        ledger.restarted(self.journal.state)
        if not self.journal.state.history:
            self.handle(StartHistory(1 + int(world.now * 1000)))
        self.at(SETTINGS.tick_interval, self._tick)

    def end(self, why: str) -> None:
        """See `FunctionProcess.end`."""
        if not self.dead:
            self.journal.crash()
        super().end(why)

    # --- lines ---

    def greet(self, end: End, message: Any) -> None:
        """Serve a new line."""
        if isinstance(message, WorkerHeartbeat):
            end.hear = partial(self._hear_worker, end, (message.worker, message.incarnation))
            end.lost = partial(self._lose_worker, end, (message.worker, message.incarnation))
        elif isinstance(message, ReaderHeartbeat):
            end.hear = partial(self._hear_reader, end)
            end.lost = partial(self._lose_reader, end, message.iteration, message.session)
        else:
            end.hear = partial(self._called, end)

    def _hear_worker(
        self, end: End, peer: tuple[str, int], signal: WorkerHeartbeat | SplitRequest
    ) -> None:
        self._lead(peer, end)
        self.handle(signal)

    def _lose_worker(self, end: End, peer: tuple[Any, int]) -> None:
        if self._ways.get(peer) is end:
            del self._ways[peer]
            self.handle(WorkerDisconnected(*peer))

    def _hear_reader(self, end: End, heartbeat: ReaderHeartbeat) -> None:
        self._lead(heartbeat.session, end)
        self.ledger.heard(heartbeat)
        self.handle(heartbeat)

    def _lose_reader(self, end: End, iteration: IterationId, session: str) -> None:
        if self._ways.get(session) is end:
            del self._ways[session]
            self.handle(ReaderDisconnected(iteration, session))

    def _lead(self, peer: object, end: End) -> None:
        older = self._ways.get(peer)
        if older is not end:
            self._ways[peer] = end
            if older is not None:
                older.close()

    def _called(self, end: End, request: OpenIterationRequest | DrainWorker | SetWeights) -> None:
        self._count += 1
        call = Call(self._count)
        self._calls[call] = end
        if isinstance(request, DrainWorker | SetWeights):
            self.handle(replace(request, call=call))
            return
        if request.parameters.dataset not in self.core.state.datasets:
            register = RegisterDataset(
                Call(-1), request.versions, request.parameters.dataset, self.streams, ""
            )
            self.handle(register)
        self.handle(OpenIteration(call, request, self.world.chance.getrandbits(40)))

    # --- decisions ---

    def _tick(self) -> None:
        self.at(SETTINGS.tick_interval, self._tick)
        self.handle(Tick())

    def handle(self, signal: Event) -> None:
        """Let the core decide, and perform its effects."""
        effects = self.cut(self.core.handle(signal, self.now))
        self._pass_on(effects)
        if self.doomed:
            self.end("in the middle of it")
        elif self.core.has_notifications and not self._pushing:
            self._pushing = True
            self.at(0.0, self._push)

    def _push(self) -> None:
        self._pushing = False
        self._telling = True
        self._pass_on(self.cut(self.core.take_views(self.now)))
        self._telling = False
        if self.doomed:
            self.end("in the middle of telling it")

    def _pass_on(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendFact):
                self.ledger.decided(effect.fact)
                self.world.note("d", effect.fact) if self.world.lines else None
                self.journal.append(effect.fact)
            else:
                if isinstance(effect, SendView):
                    self.ledger.told(effect.view)
                self.journal.call_when_durable(partial(self._perform, effect))

    def _perform(self, effect: Effect) -> None:
        if self.dead:
            return
        match effect:
            case SendCommand(worker, incarnation, order):
                if isinstance(order, WorkerRefused):
                    self._refused(worker, order)
                self._put((worker, incarnation), order)
            case SendView(view):
                self._put(view.session, view)
            case CloseReaderStream(session, failure):
                self._put(session, failure)
            case ReplyToCall(call, answer):
                if (end := self._calls.pop(call, None)) is not None:
                    end.send(answer if answer is not None else "heard")
            case ReportUncaught(line):
                self.world.note("d", line)
            case ProbeWorker(worker, incarnation):
                self.at(self.world.chance.uniform(0.001, 0.05), self._probe, worker, incarnation)

    def _refused(self, worker: str, order: WorkerRefused) -> None:
        text = str(order.failure.error())
        if "newer process" not in text:
            raise LawBroken(f"law 8: worker {worker} is refused: {text}")

    def _put(self, peer: object, item: object) -> None:
        if (end := self._ways.get(peer)) is not None:
            end.send(item)

    def _probe(self, worker: Any, incarnation: int) -> None:
        if worker not in self.world.processes and not self.world.is_walled("d", worker):
            self.handle(WorkerDead(worker, incarnation))
