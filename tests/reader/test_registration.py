"""`register_dataset` up to the dispatcher: what it refuses by itself, and what it sends."""

import inspect

import numpy as np
import pytest

from penstock import errors
from penstock.analysis.array_spec import ArraySpec, spec_from_bytes
from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.options import Options
from penstock.protocol.calls import RegisteredDataset
from penstock.protocol.definition import Definition
from penstock.protocol.types import SHARD_HINT, Codec
from penstock.reader import registration
from penstock.reader.registration import find, register_dataset

HERE = "127.0.0.1:5000"
PIPELINE = Dataset.range(6).batch(2)


class Dispatcher:
    """Notes what it is called with."""

    def __init__(self):
        self.asked, self.definition, self.found = None, None, None
        self.error = None

    async def register_dataset(self, definition, _versions, asked):
        self.definition, self.asked = Definition.from_bytes(definition), asked
        if self.error is not None:
            raise self.error
        return self.definition.fingerprint

    async def find_dataset(self, dataset_id):
        if self.found is None:
            raise errors.UnknownDataset(dataset_id)
        return self.found


@pytest.fixture
def dispatcher(monkeypatch):
    made = Dispatcher()

    def run(address, _seconds, call):
        assert address == HERE
        answer = call(made)
        try:
            answer.send(None)
        except StopIteration as exc:
            return exc.value
        raise AssertionError("it waits")

    monkeypatch.setattr(registration, "call", run)
    return made


def test_the_signature_is_the_one_that_programs_are_written_for():
    names = list(inspect.signature(register_dataset).parameters)

    assert names[:4] == ["service", "dataset", "compression", "dataset_id"]


@pytest.mark.parametrize(
    "given",
    [
        {"service": "no address"},
        {"dataset": [1, 2]},
        {"compression": "GZIP"},
        {"dataset_id": ""},
        {"dataset_id": "a/b"},
        {"dataset_id": 7},
        {"timeout": 0},
        {"element_spec": 3},
        {"dataset": Dataset.range(5).window(2)},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_is_malformed_is_refused_before_anybody_is_called(given):
    with pytest.raises(errors.DatasetError):
        register_dataset(**{"service": HERE, "dataset": PIPELINE, **given})


def test_a_pipeline_that_its_own_options_refuse_is_not_registered():
    weak = Dataset.range(3).map(lambda x: x + np.random.default_rng().integers(3))
    strict = weak.with_options(Options(external_state_policy="fail"))

    with pytest.raises(errors.DatasetError, match="external_state_policy"):
        register_dataset(HERE, strict)


def test_the_id_is_the_fingerprint_or_the_one_that_was_chosen(dispatcher):
    made = register_dataset(HERE, PIPELINE, None)

    assert made == encode(PIPELINE.node).fingerprint == dispatcher.definition.fingerprint
    assert (dispatcher.asked.dataset_id, dispatcher.asked.codec) == ("", Codec.NONE)
    assert register_dataset(("grpc", HERE), PIPELINE, dataset_id="corpus") == "corpus"
    assert (dispatcher.asked.dataset_id, dispatcher.asked.codec) == ("corpus", Codec.AUTO)


def test_specs_of_the_whole_and_of_tasks_are_sent(dispatcher):
    register_dataset(HERE, PIPELINE)

    i8 = np.dtype("int64")
    sent = spec_from_bytes(dispatcher.asked.element_spec)
    assert sent == (ArraySpec((2,), i8), ArraySpec((None,), i8))


def test_where_no_element_can_be_made_that_is_logged_and_the_spec_is_unknown(dispatcher, caplog):
    register_dataset(HERE, Dataset.range(3).map(lambda x: 1 // int(x)))

    assert dispatcher.asked.element_spec == b""
    assert "ZeroDivisionError" in caplog.text
    assert "element_spec=" in caplog.text


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(8).shard(SHARD_HINT, SHARD_HINT),
        Dataset.range(8).map(str).shard(SHARD_HINT, SHARD_HINT).batch(2),
        Dataset.range(0).batch(2),
        Dataset.text_lines("/nowhere/*"),
    ],
)
def test_a_hint_and_an_empty_source_are_registered_without_a_warning(dispatcher, caplog, dataset):
    register_dataset(HERE, dataset)

    assert dispatcher.asked.element_spec
    assert not caplog.text


def test_a_spec_may_be_given_and_then_nothing_is_run(dispatcher, caplog):
    def function(x):
        raise AssertionError("it was called")

    dataset, spec = Dataset.range(3).map(function), ArraySpec((), np.dtype("f4"))
    register_dataset(HERE, dataset, element_spec=spec)
    assert spec_from_bytes(dispatcher.asked.element_spec) == (spec, spec)
    register_dataset(HERE, dataset, element_spec=None)
    assert dispatcher.asked.element_spec == b""
    assert not caplog.text


def registered(dataset, spec=b""):
    definition = encode(dataset.node)
    plain = definition.without_code.to_bytes()
    return RegisteredDataset("corpus", definition.fingerprint, Codec.LZ4, spec, plain)


def test_an_id_that_stands_for_another_pipeline_is_told_with_the_difference(dispatcher):
    dispatcher.error = errors.DatasetError("dataset_id 'corpus' stands for another")
    dispatcher.found = registered(Dataset.range(6).batch(3))

    with pytest.raises(errors.DatasetError, match=r"another\. Of the two, batch: .*3.*2"):
        register_dataset(HERE, PIPELINE, dataset_id="corpus")


@pytest.mark.parametrize("error", [errors.DefinitionError, errors.DatasetError])
def test_other_errors_of_the_dispatcher_are_passed_on(dispatcher, error):
    dispatcher.error = error("no")

    with pytest.raises(error) as raised:
        register_dataset(HERE, PIPELINE, dataset_id="corpus")

    assert str(raised.value) == "no"


def test_a_spec_that_is_not_registered_may_be_given_by_a_reader(dispatcher):
    spec = ArraySpec((), np.dtype("i8"))
    dispatcher.found = registered(PIPELINE)

    node, codec = find(HERE, "corpus", spec, 1.0)

    assert codec is Codec.LZ4
    assert node.specs == (spec, spec)
    assert find(HERE, "corpus", None, 1.0)[0].specs is None


def test_another_spec_than_the_registered_one_is_refused_with_both(dispatcher):
    register_dataset(HERE, PIPELINE)
    dispatcher.found = registered(PIPELINE, dispatcher.asked.element_spec)

    assert find(HERE, "corpus", PIPELINE.element_spec, 1.0)
    with pytest.raises(errors.DatasetError, match=r"shape=\(3,\).*'corpus'.*shape=\(2,\)"):
        find(HERE, "corpus", ArraySpec((3,), np.dtype("i8")), 1.0)
    with pytest.raises(errors.DatasetError, match="nest of ArraySpec"):
        find(HERE, "corpus", 3, 1.0)
