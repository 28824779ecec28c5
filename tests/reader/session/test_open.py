"""What a session is told of itself when it opens."""

from types import SimpleNamespace

from penstock.protocol.calls import OpenIterationReply, OpenIterationRequest
from penstock.protocol.types import Codec, DatasetId, IterationId, Mode
from penstock.reader.core.consumer import Consumer
from penstock.reader.session import open as opening
from penstock.runtime.versions import versions


def test_of_two_processes_the_one_that_asked_last_began_last_though_it_is_answered_first(
    monkeypatch,
):
    request = OpenIterationRequest(versions(), DatasetId("d"), Mode.DYNAMIC, "j", 1, Codec.NONE)
    where = ("grpc://127.0.0.1:1", bytes, str, request, None, 1.0, False)
    spec = opening.ReadSpec(*where, consumer=Consumer(0, 2))
    now, cores = [100], []

    def answers(*_):
        """Answer, after another process has asked and was answered."""
        if now[0] == 100:
            now[0] = 200
            opening.open_session(spec)
            now[0] = 300
        return DatasetId("d"), OpenIterationReply(IterationId(1), "j", 1.0, 10.0)

    def opened(core, config, loop, held):
        cores.append(core)
        opening._close(loop, config.line)
        held.close()

    monkeypatch.setattr(opening, "time", SimpleNamespace(time_ns=lambda: now[0]))
    monkeypatch.setattr(opening, "_open", answers)
    monkeypatch.setattr(opening, "_await_join", lambda _: None)
    monkeypatch.setattr(opening, "Session", opened)
    opening.open_session(spec)

    answered_first, answered_last = (core.heartbeat(0.0).rounds.stamp for core in cores)
    assert (answered_first, answered_last) == (200, 100)
