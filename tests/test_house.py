"""The house stays as it was planned: modules and their tests, names, sizes, who imports whom.

Lists of exceptions are exact: an entry that is not needed any more fails, too.
"""

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("house")  # they share trees

ROOT = Path(__file__).parents[1]

PACKAGES = {
    "client/penstock": "",
    "services/dispatcher/penstock_dispatcher": "dispatcher",
    "services/worker/penstock_worker": "worker",
    "services/cluster/penstock_cluster": "cluster",
    "services/cluster/penstock_health": "health",
}
"""Each package, and where below `tests` its tests are."""

VALUES = {
    "penstock.executors.messages",
    "penstock.explanation.looks",
    "penstock.protocol.cache",
    "penstock.protocol.control",
    "penstock.protocol.recording",
    "penstock.protocol.calls",
    "penstock.protocol.tensorflow",
    "penstock.reader.core.effects",
    "penstock_dispatcher.core.facts",
    "penstock_dispatcher.core.fact_values",
    "penstock_dispatcher.core.events",
    "penstock_dispatcher.tensorflow.client_facts",
    "penstock_worker.core.events",
    "penstock.saved.chunks",
    "penstock.saved.formats",
    "penstock.saved.receipts",
    "penstock.transport.link_messages",
    "penstock_worker.runner.messages",
    "penstock_worker.runner.recorder_messages",
    "penstock_worker.stats",
}
"""Modules of classes that hold something and do nothing."""

MAP, PROCESSES = "ops/test_map.py", "ops/test_map_process.py"
CONNECTION, SCENARIOS = "wire/test_connection.py", "dispatcher/core/test_state_machine_scenarios.py"
METHODS = "ops/pipelines/test_random_pipelines.py"

TORCH = "frameworks/torch/test_loader.py"
BORROWING = "worker/test_shm_reader.py"
SENDING = "worker/test_tcp_reader.py"
TRAVELLED = "serialization/test_travelled.py"
TRIED_THROUGH = {
    # What tells chance from the rest works together, and so do the methods of `Dataset`.
    "penstock.analysis.function_scan": "analysis/test_determinism.py",
    "penstock.analysis.name_resolution": "analysis/test_determinism.py",
    "penstock.autocache.plan": "autocache/test_run.py",
    "penstock.dataset.elementwise": METHODS,
    "penstock.dataset.mixing": "ops/test_mixture.py",
    "penstock.dataset.file_sources": METHODS,
    "penstock.dataset.packing": METHODS,
    "penstock.dataset.regrouping": METHODS,
    "penstock.dataset.saving": "ops/test_load.py",
    "penstock.dataset.local_save": "ops/test_load.py",
    "penstock.wire.recordings": "dispatcher/test_recording_calls.py",
    "penstock_cluster.cli.save_rows": "cluster/cli/test_save.py",
    "penstock_dispatcher.core.recordings": "dispatcher/core/test_hosting.py",
    "penstock_worker.runner.recorder_process": "mesh/test_save.py",
    "penstock_worker.recorders": "mesh/test_save.py",
    "penstock.ops.follow": "ops/test_load.py",
    "penstock.analysis.freezing": "ops/test_snapshot.py",
    "penstock.dataset.keeping": "ops/test_snapshot.py",
    "penstock.ops.internal.chance": "ops/test_snapshot.py",
    "penstock.ops.internal.kept_stream": "ops/test_snapshot.py",
    "penstock.ops.internal.saved_rows": "ops/test_snapshot.py",
    "penstock.ops.internal.snapshot_key": "ops/test_snapshot.py",
    "penstock.saved.write_through": "ops/test_snapshot.py",
    "penstock.ops.write_chunks": "ops/test_load.py",
    "penstock.saved.tensorflow_folder": "mesh/test_distributed_save.py",
    "penstock.saved.chunk_reader": "ops/test_load.py",
    "penstock.saved.arrow_columns": "saved/test_chunk_format.py",
    "penstock.saved.row_format": "saved/test_chunk_format.py",
    "penstock.saved.layout": "saved/test_chunk_format.py",
    "penstock.dataset.sources": METHODS,
    "penstock.dataset.table_sources": METHODS,
    # What imports a framework is tried where there is one.
    "penstock.dataset.framework_sources": "frameworks/test_sources.py",
    "penstock.ops.internal.lance_rows": "frameworks/formats/test_lance.py",
    "penstock.jax.loader": "frameworks/jax/test_loader.py",
    "penstock.tensorflow.reading": "frameworks/tensorflow/test_reading.py",
    "penstock.torch.loader": TORCH,
    "penstock.torch.tensors": "frameworks/torch/test_tensors.py",
    # Halves of something that works in two processes.
    "penstock.wire.spans": "wire/test_tracing.py",
    "penstock.wire.tensorflow": "mesh/test_tensorflow_protocol.py",
    "penstock.ipc.fork_main": "ipc/test_fork_server.py",
    "penstock.ipc.message_line": BORROWING,
    "penstock.transport.borrowed": BORROWING,
    "penstock.transport.shared_memory": BORROWING,
    "penstock.transport.link": BORROWING,
    "penstock_worker.shm_door": BORROWING,
    "penstock_worker.linked_reader": BORROWING,
    "penstock_worker.reader_door": BORROWING,
    "penstock_worker.reader_doors": "mesh/test_tcp.py",
    "penstock_worker.tcp_door": SENDING,
    "penstock.transport.tcp": SENDING,
    "penstock.transport.payload_places": "transport/test_incoming.py",
    "penstock.ipc.tcp_socket": SENDING,
    "penstock.executors.process": PROCESSES,
    "penstock.executors.process_function": PROCESSES,
    "penstock.executors.process_main": PROCESSES,
    "penstock.executors.process_pool": PROCESSES,
    "penstock_worker.runner.flush_thread": "worker/runner/test_engine_loop.py",
    "penstock_worker.runner.frame_writer": "worker/runner/test_engine_loop.py",
    "penstock_worker.runner.main": "worker/runner/test_process.py",
    # Parts of what is tried as a whole.
    "penstock.frames.columns": "frames/test_frame_nests.py",
    "penstock.dataset.reading": "dataset/test_iterator.py",
    "penstock.dataset.job_position": "reader/delivery/test_iterator_state.py",
    "penstock_worker.reply_form": "worker/test_send_buffer.py",
    "penstock.protocol.definition": "test_definition_contents.py",
    "penstock.serialization.references": "serialization/test_fingerprint_changes.py",
    "penstock.serialization.class_forms": TRAVELLED,
    "penstock.serialization.pickler": TRAVELLED,
    "penstock.serialization.special_forms": TRAVELLED,
    "penstock.serialization.unpickling": TRAVELLED,
    "penstock.credentials.limits": "docs/test_limits.py",
    "penstock.wire.rpc": CONNECTION,
    "penstock.wire.status": CONNECTION,
    "penstock.wire.stream": CONNECTION,
    "penstock_worker.web.metrics": "deploy/test_prometheus.py",
    "penstock_dispatcher.web.routes": "web/test_answering.py",
    "penstock_worker.web.routes": "web/test_answering.py",
    # What operators share is tried through them, at every state.
    "penstock.ops.internal.arrangements": "ops/test_pack.py",
    "penstock.ops.internal.arranging": "ops/test_pack.py",
    "penstock.ops.internal.documents": "ops/test_pack.py",
    "penstock.ops.internal.packing": "ops/test_pack.py",
    "penstock.ops.internal.cache_writer": "ops/internal/test_cache_file.py",
    "penstock.ops.internal.call_batch": MAP,
    "penstock.ops.internal.dead_letters": "ops/test_ignore_errors.py",
    "penstock.ops.internal.group_buffer": "ops/test_group_by_window.py",
    "penstock.ops.internal.group_input": "ops/test_group_by_window.py",
    "penstock.ops.internal.inner_dataset": "ops/test_flat_map.py",
    "penstock.ops.internal.input_buffer": "ops/test_batch.py",
    "penstock.ops.internal.interleave_slots": "ops/test_interleave.py",
    "penstock.ops.internal.mixed_input": "ops/test_mixture.py",
    "penstock.ops.internal.parallel_map": MAP,
    "penstock.ops.internal.record_parts": "ops/internal/test_line_parts.py",
    "penstock.ops.internal.shuffle_slots": "ops/test_shuffle.py",
    "penstock.ops.internal.stretch": "ops/test_mixture.py",
    "penstock.ops.internal.tracked_shuffle": "reader/delivery/test_output_block.py",
    # A core is tried as a whole, by scenarios and laws.
    "penstock.reader.core.ack_collector": "reader/core/test_deliveries.py",
    "penstock.reader.core.group_streams": "reader/core/test_rounds.py",
    "penstock.reader.core.round_log": "reader/core/test_rounds_membership.py",
    "penstock.reader.core.session_core": "reader/core/test_membership.py",
    "penstock.reader.core.task_stream": "reader/core/test_state_machine_frames.py",
    "penstock_dispatcher.core.cache_record": "dispatcher/core/test_cache_members.py",
    "penstock_dispatcher.core.context": SCENARIOS,
    "penstock_dispatcher.core.datasets": SCENARIOS,
    "penstock_dispatcher.core.job_state": "dispatcher/core/test_saves.py",
    "penstock_dispatcher.core.mixture_record": "dispatcher/core/test_mixtures.py",
    "penstock_dispatcher.core.notifications": SCENARIOS,
    "penstock_dispatcher.core.reachability": SCENARIOS,
    "penstock_dispatcher.core.placement": SCENARIOS,
    "penstock_dispatcher.core.records": SCENARIOS,
    "penstock_dispatcher.core.registrations": SCENARIOS,
    "penstock_dispatcher.core.unread": SCENARIOS,
    "penstock_dispatcher.core.restore": "dispatcher/core/test_saves.py",
    "penstock_dispatcher.core.saved_state": "dispatcher/core/test_saves.py",
    "penstock_dispatcher.core.scheduler": SCENARIOS,
    "penstock_dispatcher.core.stats": "dispatcher/core/test_counting.py",
    "penstock_dispatcher.core.views": SCENARIOS,
    "penstock_worker.core.delivery_policy": "worker/core/test_round_groups.py",
    "penstock_worker.core.early_streams": "worker/core/test_state_machine.py",
    # What lies between a core and the network is tried with both.
    "penstock.reader.delivery.sessions": "reader/delivery/test_iterator_state.py",
    "penstock.reader.job_run": "reader/delivery/test_iterator_state.py",
    "penstock.reader.session.network": "reader/session/test_session_failures.py",
    # What makes a process of a server is tried as a process.
    "penstock_dispatcher.command": "dispatcher/test_server.py",
    "penstock_worker.command": "worker/test_server.py",
    "penstock_worker.process": "worker/test_server.py",
}
"""Modules without tests of their own, and the tests that have them at work."""

OF_THE_WHOLE = {"tests/test_ci_run.py", "tests/test_house.py", "tests/test_package.py"}
"""Tests in folders of packages that are of no single module."""

TWICE = {"Loader", "Tick"}
"""Classes that there are two of: each core of a service has its clock, a framework its loader."""

LINES, LONG = 400, set()
"""How long a module may be, and those that are to shrink."""

COROUTINE_LINES = 40
"""How long a coroutine may be."""

WALL_CLOCKS = {
    # What is shown to people, or compared by them with other clocks.
    "penstock.autocache.store_speed": "the age of a trial's file, which another process left",
    "penstock.ops.internal.dead_letters": "when an element failed, in the dead letter",
    "penstock.reader.session.deadlines": "since when a loop waits, in what it logs",
    "penstock.reader.session.payload": "when an element was where, on one time line of processes",
    "penstock_worker.frame_trace": "the same, at a worker",
    "penstock_worker.runner.frame_writer": "the same, at a runner",
    "penstock_dispatcher.page.feed": "the times of marks on the page",
    "penstock_dispatcher.service": "the date of a start, which `status` shows others beside",
    "penstock_cluster.cli.status": "the date of a look, beside those that the dispatcher tells",
    "penstock.ops.internal.snapshot_key": "when a snapshot was begun, to compare with the newest",
    "penstock.saved.manifest": "when a version was written, which other processes read days later",
    "penstock.saved.upkeep": "for how long a dataset has been replaced, by such a date",
    # Certificates and tokens end at a date.
    "penstock.credentials.caller": "whether a certificate has ended",
    "penstock.credentials.entrance": "whether a proof has ended",
    "penstock.credentials.guard": "whether a token or a proof has ended",
    "penstock_cluster.cli.keys": "from when on what it makes is good",
    # Numbers that differ from those of lives before.
    "penstock.reader.session.open": "a number for a consumer's place: who came last has it",
    "penstock_worker.service": "a worker's incarnation: of one address the later one counts",
    "penstock_dispatcher.clock": "the birth of a history, above the ids of those before",
    "penstock_dispatcher.tensorflow.client_store": "the first of the numbers of a life",
    "penstock.analysis.entropy": "reads none: it finds them in users' functions",
}
"""Who reads the clock that people and NTP set, and for what. Leases and time-outs go by
`penstock.runtime.clock` or `time.monotonic`, which do not jump."""

OF_NOW = {"localtime", "gmtime", "ctime", "asctime"}
"""Functions of `time` that read the clock where no time is given to them."""


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    tests: Path
    """The folder of its tests."""

    @property
    def stem(self):
        return self.path.stem

    @property
    def text(self):
        return self.path.read_text()

    @property
    def tried(self):
        """Whether it has a test module of its own."""
        named = self.tests / f"test_{self.stem}.py"
        return named.exists() or any(self.tests.glob(f"test_{self.stem}_*.py"))


@cache
def modules():
    """All modules of the packages by their dotted names, but for generated code."""
    found = {}
    for folder, tests in PACKAGES.items():
        top = ROOT / folder
        for path in sorted(top.rglob("*.py")):
            inside = path.relative_to(top)
            if "_pb" not in inside.parts:
                name = ".".join([top.name, *inside.with_suffix("").parts])
                name = name.removesuffix(".__init__")
                found[name] = Module(name, path, ROOT / "tests" / tests / inside.parent)
    return found


@cache
def tree(name):
    return ast.parse(modules()[name].text)


def run_at_import(body):
    """Yield the statements that run when a module is imported."""
    for node in body:
        yield node
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                yield from run_at_import(node.orelse)
            case ast.If():
                yield from run_at_import([*node.body, *node.orelse])
            case ast.Try():
                handled = [part for handler in node.handlers for part in handler.body]
                yield from run_at_import([*node.body, *handled, *node.orelse, *node.finalbody])
            case ast.With() | ast.ClassDef():
                yield from run_at_import(node.body)


def imports(name):
    """Return the modules of ours that *name* imports when it is imported."""
    return imported(name, run_at_import(tree(name).body))


def refers_to(name):
    """Return the modules of ours that *name* imports at any time, or for its types only."""
    return imported(name, ast.walk(tree(name)))


def imported(name, nodes):
    found = set()
    for node in nodes:
        match node:
            case ast.Import(names):
                found |= {each.name for each in names}
            case ast.ImportFrom(module, names, 0):
                inner = {f"{module}.{each.name}" for each in names}
                found |= {each if each in modules() else module for each in inner}
            case ast.ImportFrom():
                raise AssertionError(f"{name}: imports are absolute")
    return (found & modules().keys()) - {name}


def circles(graph):
    """Return the sets of nodes of *graph* from each of which each other is reached."""

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            new = graph[todo.pop()] - seen
            seen |= new
            todo += new
        return seen

    reach = {node: reached(node) for node in graph}
    joined = ({other for other in reach[node] if node in reach[other]} for node in graph)
    return {frozenset(each) for each in joined if each}


def test_each_module_has_a_test_module_in_its_place():
    found = {
        name
        for name, module in modules().items()
        if module.stem not in ("__init__", "__main__") and not module.tried
    }

    assert found == VALUES | TRIED_THROUGH.keys()
    assert not VALUES & TRIED_THROUGH.keys()


@pytest.mark.parametrize("path", sorted(set(TRIED_THROUGH.values())))
def test_what_modules_are_tried_through_is_there(path):
    assert (ROOT / "tests" / path).exists()


def test_modules_of_values_do_nothing():
    for name in VALUES:
        for node in ast.walk(tree(name)):
            assert not isinstance(node, ast.For | ast.While | ast.Try | ast.AsyncFunctionDef), name


def test_each_test_module_lies_where_its_module_does():
    places = defaultdict(set)
    for module in modules().values():
        places[module.tests].add(module.stem)

    strays = {
        str(path.relative_to(ROOT))
        for folder, stems in places.items()
        for path in folder.glob("test_*.py")
        if not any(f"{path.stem}_".startswith(f"test_{stem}_") for stem in stems)
    }
    assert strays == OF_THE_WHOLE


def test_a_class_name_stands_for_one_idea():
    found = defaultdict(list)
    for name in modules():
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)

    assert {name for name, places in found.items() if len(places) > 1} == TWICE


def test_modules_are_short():
    found = {name for name, each in modules().items() if len(each.text.splitlines()) > LINES}

    assert found == LONG


def test_coroutines_are_short():
    found = {
        f"{name}.{node.name}"
        for name in modules()
        for node in ast.walk(tree(name))
        if isinstance(node, ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= COROUTINE_LINES
    }

    assert not found


def reads_wall_clock(node):
    """Whether *node* names a clock that may be set, or calls it."""
    match node:
        case ast.Attribute(ast.Name("time"), "time" | "time_ns" | "CLOCK_REALTIME"):
            return True
        case ast.Attribute(ast.Name("datetime" | "date"), "now" | "utcnow" | "today"):
            return True
        case ast.Attribute(ast.Attribute(_, "datetime" | "date"), "now" | "utcnow" | "today"):
            return True
        case ast.ImportFrom("time", names, 0):
            return any(each.name in {"time", "time_ns", "CLOCK_REALTIME"} for each in names)
        case ast.Call(ast.Attribute(ast.Name("time"), name), [], []):
            return name in OF_NOW
    return False


def test_leases_and_time_outs_go_by_a_clock_that_nobody_sets():
    found = {name for name in modules() if any(map(reads_wall_clock, ast.walk(tree(name))))}

    assert found == WALL_CLOCKS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "time.time()",
        "clock=time.time_ns",
        "from time import monotonic, time",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "datetime.date.today()",
        "time.localtime()",
        "time.clock_gettime(time.CLOCK_REALTIME)",
    ],
)
def test_clocks_that_may_be_set_are_found(source):
    assert any(map(reads_wall_clock, ast.walk(ast.parse(source))))


@pytest.mark.parametrize(
    "source",
    ["time.monotonic()", "from time import monotonic", "time.localtime(at)", "clock.now()"],
)
def test_clocks_that_do_not_jump_are_let_be(source):
    assert not any(map(reads_wall_clock, ast.walk(ast.parse(source))))


def test_no_modules_refer_to_each_other_in_a_circle():
    assert circles({name: refers_to(name) for name in modules()}) == set()


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}

    assert circles(graph) == {frozenset("bc"), frozenset("e")}
