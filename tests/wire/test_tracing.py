import asyncio
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from penstock import errors
from penstock.protocol.calls import OpenIterationReply, Registration
from penstock.protocol.types import PROTOCOL, Codec, Mode, Versions
from penstock.wire import tracing
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import DispatcherClient, dispatcher_handlers
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11", "0.1")
CLIENT, SERVER = 3, 2
ERROR = 2


class Dispatcher:
    async def register_dataset(self, definition, versions, registration=None):
        return "d-1"

    async def open_iteration(self, request):
        return OpenIterationReply(request.repetition, request.job_name, 0.5, 30.0)

    async def drain(self, worker):
        raise errors.Refused(f"there is no worker {worker}")

    worker_control = reader_control = None


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.open.wait(60)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.spans, server.open = [], Event()
        server.open.set()
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.open.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def traced(monkeypatch):
    """Have this process look at its variables in this test, and again behind it."""

    def at(port):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        tracing._found.cache_clear()

    yield at
    if (spans := tracing.tracing()) is not None:
        spans.close()
    tracing._found.cache_clear()


@asynccontextmanager
async def dispatcher():
    handlers = dispatcher_handlers(Dispatcher())
    async with (
        listening(handlers, host="127.0.0.1", port=0, drain=1) as port,
        connect(f"127.0.0.1:{port}") as channel,
    ):
        yield DispatcherClient(channel, timeout=20)


def attributes(span):
    return {each.key: each.value.string_value for each in span.attributes}


def pair(collector, method):
    """Return the spans of a call's two sides."""
    client, server = sorted(
        (s for s in collector.spans if attributes(s)["rpc.method"] == method),
        key=lambda span: -span.kind,
    )
    assert (client.kind, server.kind) == (CLIENT, SERVER)
    assert server.trace_id == client.trace_id
    assert server.parent_span_id == client.span_id
    return client, server


def asked():
    return opening(VERSIONS, "d-1", Mode.DYNAMIC, "train", 0, Codec.NONE)


async def test_both_sides_of_a_call_are_spans_of_one_trace(collector, traced):
    traced(collector.server_port)
    async with dispatcher() as far:
        registration = Registration("images", Codec.NONE)
        await far.register_dataset(b"definition", VERSIONS, registration)
        await far.open_iteration(asked())
    await asyncio.to_thread(tracing.tracing().close)

    registered = pair(collector, "RegisterDataset")
    opened = pair(collector, "OpenIteration")
    for span in registered + opened:
        told = attributes(span)
        assert (told["rpc.system"], told["rpc.service"]) == ("grpc", "penstock.v1.Dispatcher")
        assert told["penstock.dataset"] == "d-1"
    assert [attributes(span)["penstock.job"] for span in opened] == ["train", "train"]
    assert registered[0].trace_id != opened[0].trace_id


async def test_a_call_that_fails_has_the_errors_name_on_both_sides(collector, traced):
    traced(collector.server_port)
    async with dispatcher() as far:
        with pytest.raises(errors.Refused):
            await far.drain("w:1")
    await asyncio.to_thread(tracing.tracing().close)

    for span in pair(collector, "Drain"):
        assert span.status.code == ERROR
        assert attributes(span)["error.type"] == "Refused"
        assert attributes(span)["penstock.worker"] == "w:1"


@pytest.mark.slow
async def test_a_collector_that_does_not_answer_holds_up_neither_calls_nor_the_end(
    collector, traced
):
    collector.open.clear()
    traced(collector.server_port)
    async with dispatcher() as far:
        for _ in range(3):
            await far.open_iteration(asked())
    began = time.monotonic()
    await asyncio.to_thread(tracing.tracing().close)

    assert time.monotonic() - began < 1
    assert not collector.spans


async def test_a_missing_extra_is_a_warning_once(traced, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "penstock.wire.spans", None)
    monkeypatch.delitem(sys.modules, "penstock.wire.spans")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    traced(1)
    async with dispatcher() as far:
        await far.open_iteration(asked())
        await far.open_iteration(asked())

    warnings = [each.message for each in caplog.records if "traces" in each.message]
    assert len(warnings) == 1
    assert "pip install 'penstock[otel]'" in warnings[0]


def test_without_variables_nothing_of_opentelemetry_is_imported():
    code = (
        "import sys; from penstock.wire import rpc, tracing; assert tracing.tracing() is None;"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], env={}, check=True)


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_variables_say_whether_there_are_traces(env, wanted):
    assert tracing.asked(env) is wanted
