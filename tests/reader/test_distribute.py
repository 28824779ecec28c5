"""`distribute` before anything is read: it checks, packs, and calls nobody."""

import inspect
import logging
import pickle
import subprocess
import sys
import threading

import cloudpickle
import pytest

from penstock import errors
from penstock.dataset.dataset import Dataset
from penstock.definition import decode, encode
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.protocol.definition import Definition
from penstock.protocol.types import SHARD_HINT, ShardingPolicy
from penstock.reader.agreement import CrossTrainerCache
from penstock.reader.arguments import address_of, mode_of
from penstock.reader.distribute import distribute
from penstock.serialization.fingerprint import fingerprint

HERE = "127.0.0.1:5000"


ONE_OF_TWO = {"consumer_index": 0, "num_consumers": 2, "job_name": "j"}


def apply(dataset=None, mode="distributed_epoch", target=HERE, **kwargs):
    return (dataset or Dataset.range(4)).apply(distribute(mode, target, **kwargs))


def test_the_signature_is_the_one_that_programs_are_written_for():
    shown = [
        (name, parameter.default, parameter.kind.name)
        for name, parameter in inspect.signature(distribute).parameters.items()
    ]

    empty, place, name = inspect.Parameter.empty, "POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"
    assert shown == [
        ("processing_mode", empty, place),
        ("service", empty, place),
        ("job_name", None, place),
        ("consumer_index", None, place),
        ("num_consumers", None, place),
        ("max_outstanding_requests", None, place),
        ("data_transfer_protocol", None, place),
        ("compression", "AUTO", place),
        ("cross_trainer_cache", None, place),
        ("target_workers", "AUTO", place),
        ("ordered", False, name),
        ("remainder", "drop", name),
        ("writable", False, name),
        ("timeout", 60.0, name),
        ("on_finished", "error", name),
        ("start_round", None, name),
        ("patience", None, name),
        ("when_full", "skip", name),
        ("on_error", "raise", name),
        ("max_errors", None, name),
        ("credentials", None, name),
        ("seed", None, name),
    ]
    method = inspect.signature(Dataset.distribute).parameters
    assert [(p.name, p.default, p.kind.name) for p in list(method.values())[1:]] == shown


def test_the_policies_have_the_numbers_of_the_field():
    assert {policy.name: policy.value for policy in ShardingPolicy} == {
        "OFF": 0,
        "DYNAMIC": 1,
        "FILE": 2,
        "DATA": 3,
        "FILE_OR_DATA": 4,
        "HINT": 5,
    }


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mode": "epochs"}, "processing_mode .*'epochs'"),
        ({"mode": 1}, "processing_mode .*1"),
        ({"mode": None}, "processing_mode .*None"),
        ({"target": ""}, "must not be empty"),
        ({"target": "grpc://"}, "must not be empty"),
        ({"target": 5000}, "service must be a string"),
        ({"target": ("grpc", 5000)}, "service must be a string"),
        ({"target": ("grpc", HERE, "more")}, "service must be a string"),
        ({"target": "grpc://a://b:1"}, "more than one '://'"),
        ({"target": ("grpc", "grpc://b:1")}, "more than one '://'"),
        ({"target": "http://b:1"}, "unknown protocol 'http'"),
        ({"target": "localhost"}, "'localhost' is malformed"),
        ({"target": "localhost:http"}, "malformed"),
        ({"target": "localhost:70000"}, "malformed"),
        ({"target": ":5000"}, "malformed"),
        ({"target": "host/path:5000"}, "malformed"),
        ({"job_name": ""}, "job_name must not be empty"),
        ({"job_name": "  "}, "job_name must not be empty"),
        ({"job_name": 7}, "job_name must be a string, not 7"),
        ({"consumer_index": 0}, "consumer_index=0 and num_consumers=None"),
        ({"num_consumers": 2, "job_name": "j"}, "both or neither"),
        ({"consumer_index": 0, "num_consumers": 2}, "num_consumers=2 needs a job_name"),
        ({"consumer_index": 2, "num_consumers": 2, "job_name": "j"}, "below num_consumers"),
        ({"consumer_index": -1, "num_consumers": 2, "job_name": "j"}, "consumer_index .*-1"),
        ({"consumer_index": 0, "num_consumers": 0, "job_name": "j"}, "num_consumers .*0"),
        ({"max_outstanding_requests": 0}, "max_outstanding_requests .*0"),
        ({"max_outstanding_requests": 1.5}, "max_outstanding_requests .*1.5"),
        ({"max_outstanding_requests": True}, "max_outstanding_requests .*True"),
        ({"compression": "SNAPPY"}, "compression .*'SNAPPY'"),
        ({"compression": 1}, "compression .*1"),
        ({"target_workers": "NEAR"}, "target_workers .*'NEAR'"),
        ({"target_workers": None}, "target_workers .*None"),
        ({"data_transfer_protocol": 3}, "data_transfer_protocol .*3"),
        ({"data_transfer_protocol": "udp"}, "one of 'grpc', 'local', 'shm', 'tcp', not 'udp'"),
        (
            {
                "target_workers": "LOCAL",
                "job_name": "j",
                "consumer_index": 0,
                "num_consumers": 1,
            },
            "'LOCAL' and num_consumers do not go together",
        ),
        ({"remainder": "keep"}, "remainder .*'keep'"),
        ({"remainder": "pad"}, "remainder='pad' is for coordinated reads"),
        ({"remainder": None}, "remainder .*None"),
        ({"start_round": 3}, "start_round=3 is for coordinated reads"),
        ({"patience": 0}, "patience=0 is for coordinated reads"),
        ({**ONE_OF_TWO, "start_round": -1}, "start_round .*-1"),
        ({**ONE_OF_TWO, "patience": 1.5}, "patience .*1.5"),
        ({**ONE_OF_TWO, "ordered": 1}, "ordered must be True or False, not 1"),
        ({**ONE_OF_TWO, "ordered": True, "patience": 2}, "ordered=True .*patience=2"),
        ({"when_full": "block"}, "when_full .*'block'"),
        ({"when_full": "wait"}, "when_full='wait' is for a cross_trainer_cache"),
        ({"cross_trainer_cache": "cache", "job_name": "j"}, "CrossTrainerCache.*not 'cache'"),
        ({"cross_trainer_cache": CrossTrainerCache("t")}, "needs a job_name"),
        ({**ONE_OF_TWO, "cross_trainer_cache": CrossTrainerCache("t")}, "exclude each other"),
        ({"seed": -1}, "seed .*-1"),
        ({"seed": 1.5}, "seed .*1.5"),
        ({"on_finished": "raise"}, "on_finished .*'raise'"),
        ({"on_finished": None}, "on_finished .*None"),
        ({"timeout": 0}, "timeout .*0"),
        ({"timeout": -1.0}, "timeout .*-1.0"),
        ({"timeout": float("nan")}, "timeout .*nan"),
        ({"timeout": float("inf")}, "timeout .*inf"),
        ({"timeout": "soon"}, "timeout .*'soon'"),
        ({"timeout": True}, "timeout .*True"),
    ],
    ids=str,
)
def test_a_malformed_argument_is_named_with_its_value(wrong, words):
    with pytest.raises(errors.DatasetError, match=words) as caught:
        apply(**wrong)

    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "fine",
    [
        {"mode": "parallel_epochs"},
        {"mode": ShardingPolicy.OFF},
        {"mode": ShardingPolicy.DYNAMIC},
        {"mode": ShardingPolicy.DATA},
        {"mode": ShardingPolicy.FILE_OR_DATA},
        {"target": f"grpc://{HERE}"},
        {"target": ("grpc", HERE)},
        {"target": "[::1]:5000"},
        {"job_name": "j"},
        {"max_outstanding_requests": 1},
        {"data_transfer_protocol": "grpc"},
        {"compression": "LZ4"},
        {"compression": "ZSTD"},
        {"compression": None},
        {"data_transfer_protocol": "local"},
        {"target_workers": "any"},
        {"target_workers": "local"},
        {"target_workers": ""},
        {"writable": True},
        {"timeout": 5},
    ],
    ids=str,
)
def test_good_arguments_give_a_dataset(fine):
    assert isinstance(apply(**fine), Dataset)


def test_addresses_and_modes_have_one_form():
    assert address_of("grpc://host:1") == address_of("host:1") == address_of(("grpc", "host:1"))
    assert mode_of("parallel_epochs") is mode_of(ShardingPolicy.OFF)
    assert mode_of("distributed_epoch") is mode_of(ShardingPolicy.DYNAMIC)


def test_distribute_runs_no_function_and_reads_no_data():
    calls = []

    class Source:
        def __len__(self):
            return 5

        def __getitem__(self, i):
            raise AssertionError("nobody reads yet")

    apply(Dataset.from_sequence(Source()).map(calls.append), mode="parallel_epochs")

    assert calls == []


def test_a_function_that_cannot_be_sent_is_named_when_distribute_is_applied():
    handle = threading.Lock()

    def f(x):
        return handle, x

    with pytest.raises(errors.DefinitionError, match="handle"):
        apply(Dataset.range(3).map(f), mode="parallel_epochs")


def test_a_source_that_cannot_be_split_is_named_for_dynamic_sharding_only():
    def numbers():
        yield 1

    dataset = Dataset.from_generator(numbers)
    with pytest.raises(errors.DatasetError, match=r"from_generator.*parallel_epochs"):
        apply(dataset)

    assert isinstance(apply(dataset, mode="parallel_epochs"), Dataset)


def test_operators_that_work_on_each_tasks_own_stream_are_logged(caplog):
    with caplog.at_level(logging.INFO, "penstock.service"):
        apply(Dataset.range(9).map(lambda x: x))
        assert caplog.messages == []
        apply(Dataset.range(9).filter(bool).take(3).batch(2))

    assert caplog.messages == ["applied to each task's own part of the elements: take, batch"]


def test_consumers_of_a_pipeline_without_one_order_are_told_that_they_read_rounds(caplog):
    documents = {"a": Dataset.range(4), "b": Dataset.range(4)}
    by_tokens = Dataset.mixture(documents, {"a": 1, "b": 1}, unit="tokens", length=abs)

    apply(by_tokens, **ONE_OF_TWO)
    apply(Dataset.range(4), ordered=True, **ONE_OF_TWO)
    assert caplog.messages == []

    apply(by_tokens, ordered=True, **ONE_OF_TWO)
    (told,) = caplog.messages
    assert told.startswith("ordered=True: mixture mixes what each task reads, because")
    assert 'count elements (unit="elements")' in told
    assert told.endswith("in rounds, and the rounds depend on the number of workers")


def test_rounds_of_balance_are_read_by_as_many_consumers(caplog):
    pairs = Dataset.range(300).balance(2, abs).map(abs).prefetch(1)
    three = {"consumer_index": 0, "num_consumers": 3, "job_name": "j"}

    with pytest.raises(errors.DatasetError, match=r"rounds of 2 elements, but num_consumers=3: "):
        apply(pairs, **three)
    apply(pairs, **ONE_OF_TWO)
    apply(Dataset.range(300).balance(4, abs), **ONE_OF_TWO)
    apply(pairs.batch(2), **three)
    assert caplog.messages == []


def test_a_state_of_ordered_ranks_may_continue_on_a_number_that_balance_was_not_made_for(caplog):
    pairs = Dataset.range(300).balance(2, abs)

    apply(pairs, consumer_index=0, num_consumers=3, job_name="j", ordered=True)
    (told,) = caplog.messages
    assert "balance(num_consumers=2) makes rounds of 2 elements, but num_consumers=3" in told
    assert "Only to resume" in told


def test_a_cache_that_keeps_nothing_on_workers_is_told_with_what_to_do(caplog, tmp_path):
    apply(Dataset.range(9).cache().repeat(2))
    apply(Dataset.range(9)).cache(tmp_path / "here")
    assert caplog.messages == []

    apply(Dataset.range(9).cache())
    (told,) = caplog.messages
    assert told.startswith("cache() before distribute keeps nothing for the")
    assert "give it a path that they share, or put cache behind distribute" in told


def test_a_cache_with_a_path_before_distribute_is_a_snapshot_and_refuses_chance(caplog, tmp_path):
    pytest.importorskip("pyarrow")
    apply(Dataset.range(9).cache(tmp_path / "there").repeat(2))
    assert caplog.messages == []

    with pytest.raises(errors.DatasetError, match=r"^cache\('.*there'\) before .*: shuffle draws"):
        apply(Dataset.range(9).shuffle(9).cache(tmp_path / "there"))


def test_the_cardinality_is_what_is_known():
    assert apply(Dataset.range(0)).cardinality() == 0
    assert apply(Dataset.range(9), job_name="shared").cardinality() == UNKNOWN
    assert apply(Dataset.range(9), on_error="skip").cardinality() == UNKNOWN
    assert apply(Dataset.range(9), "parallel_epochs").cardinality() == UNKNOWN
    assert apply(Dataset.range(9).repeat()).cardinality() == INFINITE
    assert apply(Dataset.range(9).filter(bool)).cardinality() == UNKNOWN
    assert apply(Dataset.range(9)).repeat().cardinality() == INFINITE


def test_a_single_reader_knows_how_much_comes_unless_that_depends_on_how_it_is_divided():
    assert len(apply(Dataset.range(20).batch(2))) == 10
    assert len(apply(Dataset.range(20).shuffle(5).batch(3)).batch(2)) == 4
    assert len(apply(Dataset.range(20).repeat(2), ShardingPolicy.DATA)) == 40
    assert apply(Dataset.range(20).repeat(2).batch(3)).cardinality() == UNKNOWN
    assert apply(Dataset.range(20).take(3).batch(2)).cardinality() in (2, UNKNOWN)
    assert apply(Dataset.range(20).map(abs).take(3)).cardinality() in (3, UNKNOWN)
    assert len(apply(Dataset.range(20).batch(3), ShardingPolicy.DATA)) == 7


@pytest.mark.parametrize(
    ("mode", "endless"),
    [
        (ShardingPolicy.DATA, INFINITE),
        (ShardingPolicy.FILE, UNKNOWN),
        (ShardingPolicy.FILE_OR_DATA, UNKNOWN),
        (ShardingPolicy.HINT, UNKNOWN),
    ],
)
def test_of_fixed_parts_less_is_known(mode, endless):
    hinted = mode is ShardingPolicy.HINT
    lines = Dataset.text_lines("a").shard(SHARD_HINT, 0) if hinted else Dataset.text_lines("a")

    assert apply(lines.repeat(), mode).cardinality() == (UNKNOWN if hinted else endless)
    assert apply(lines, mode).cardinality() == UNKNOWN


def test_nothing_stays_nothing_in_fixed_parts():
    assert apply(Dataset.range(0), ShardingPolicy.DATA).cardinality() == 0


def test_a_hint_under_another_policy_names_its_own():
    hinted = Dataset.range(4).shard(SHARD_HINT, 0)

    for mode in ("parallel_epochs", "distributed_epoch", ShardingPolicy.DATA):
        with pytest.raises(errors.DatasetError, match=r"distribute with ShardingPolicy\.HINT"):
            apply(hinted, mode)


def test_something_else_than_a_dataset_cannot_be_distributed():
    with pytest.raises(errors.DatasetError, match="not to"):
        distribute("parallel_epochs", HERE)([1, 2, 3])


def test_a_distributed_dataset_travels_inside_another_definition_and_begins_anew_there():
    inner = apply(Dataset.range(5).map(lambda x: x + 1), job_name="inner", timeout=7)
    inner.node.passes._count = 3

    outer = decode(Definition.from_bytes(encode(inner.map(lambda x: x * 2).node).to_bytes()))

    node = outer.inputs[0]
    assert (node.address, node.mode, node.job_name, node.timeout) == (HERE, "dynamic", "inner", 7.0)
    assert node.passes._count == 0
    assert node.remote.node.label == inner.node.remote.node.label
    assert fingerprint(node) == fingerprint(inner.node)


def test_a_distributed_dataset_can_be_pickled():
    copy = pickle.loads(cloudpickle.dumps(apply(Dataset.range(5).map(lambda x: x))))

    assert copy.cardinality() == 5


def test_dynamic_sharding_over_a_distributed_dataset_is_refused():
    with pytest.raises(errors.DatasetError, match="distribute"):
        apply(apply())


def test_the_upstream_is_no_part_of_the_graph_that_runs_here():
    far = apply(Dataset.range(5).map(lambda x: x))

    assert far.node.inputs == ()
    assert far.node.label == "distribute"


@pytest.mark.slow
def test_nothing_loads_grpc_until_an_iterator_is_made():
    code = f"""
import sys
from penstock import Dataset, service
far = Dataset.range(5).map(lambda x: x).distribute("distributed_epoch", {HERE!r}, timeout=0.1)
far = far.map(lambda x: x).batch(2)
far.cardinality()
before = "grpc" in sys.modules
try:
    iter(far)
except ConnectionError:
    pass
print(before, "grpc" in sys.modules)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert shown.stdout.split() == ["False", "True"], shown.stderr
