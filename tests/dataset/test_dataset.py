import inspect
import pickle
import re

import pytest

from penstock.dataset.dataset import Dataset
from penstock.dataset.iterator import DatasetIterator
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, UNKNOWN


def test_every_method_returns_a_new_dataset():
    base = Dataset.range(3)

    doubled = base.map(lambda x: 2 * x)

    assert list(base) == [0, 1, 2]
    assert list(doubled) == list(doubled) == [0, 2, 4]


def test_nothing_runs_until_a_dataset_is_read(counted_calls):
    calls, fn = counted_calls

    dataset = Dataset.range(3).map(fn).filter(fn).batch(2).repeat()
    dataset.cardinality()
    repr(dataset)

    assert calls == []


@pytest.fixture
def counted_calls():
    calls = []
    return calls, lambda x: calls.append(x) or True


def test_apply_calls_a_function_on_the_dataset():
    def twice(dataset):
        return dataset.concatenate(dataset)

    assert list(Dataset.range(2).apply(twice)) == [0, 1, 0, 1]


def test_apply_wants_a_dataset_back():
    with pytest.raises(DatasetError, match="apply: transformation_func must return a Dataset"):
        Dataset.range(2).apply(lambda dataset: None)


def test_all_ways_to_read_give_the_same_kind_of_iterator():
    dataset = Dataset.range(2)

    for it in (iter(dataset), dataset.iterator(), dataset.as_numpy_iterator()):
        assert type(it) is DatasetIterator
        assert list(it) == [0, 1]


def test_cardinality_is_a_plain_int():
    assert Dataset.range(3).cardinality() == 3
    assert type(Dataset.range(3).cardinality()) is int
    assert Dataset.range(3).repeat().cardinality() == INFINITE == -1
    assert Dataset.range(3).filter(bool).cardinality() == UNKNOWN == -2


def test_len_is_the_cardinality_where_there_is_one():
    assert len(Dataset.range(3)) == 3
    with pytest.raises(TypeError, match="infinite"):
        len(Dataset.range(3).repeat())
    with pytest.raises(TypeError, match="unknown"):
        len(Dataset.range(3).filter(bool))


def test_an_empty_dataset_is_true():
    assert Dataset.range(0)


def test_a_dataset_shows_its_pipeline():
    assert repr(Dataset.range(3).map(inspect.getsource)) == "<Dataset range → map(getsource)>"


def test_a_dataset_shows_what_workers_run_before_what_runs_here():
    far = Dataset.range(3).map(abs).distribute("distributed_epoch", "localhost:1").batch(2)

    assert repr(far) == "<Dataset range → map(abs) → distribute → batch>"


def test_branches_of_a_dataset_are_shown_side_by_side():
    made = Dataset.zip((Dataset.range(3), Dataset.range(3).batch(1))).prefetch(2)

    assert repr(made) == "<Dataset (range, range → batch) → zip → prefetch>"


def test_of_a_large_pipeline_the_end_is_shown():
    made = Dataset.range(3)
    for _ in range(12):
        made = Dataset.zip((made, made)).map(lambda x, _: x)

    assert repr(made).count("…") > 0
    assert len(repr(made)) < 400
    assert repr(made).endswith("→ zip → map(<lambda>)>")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Dataset.range(3).batch(), "Dataset.batch()"),
        (lambda: Dataset.range(3).map(), "Dataset.map()"),
        (lambda: Dataset.from_tensor_slices(), "Dataset.from_tensor_slices()"),
        (lambda: iter(Dataset.range(3)).skip_to(), "DatasetIterator.skip_to()"),
    ],
)
def test_python_names_the_class_that_users_know(call, name):
    with pytest.raises(TypeError, match=re.escape(name)):
        call()


def test_a_method_can_be_pickled_by_the_name_that_it_shows():
    assert pickle.loads(pickle.dumps(Dataset.batch)) is Dataset.batch


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("range", "args"),
        ("from_tensors", "tensors"),
        ("from_tensor_slices", "tensors"),
        ("from_sequence", "obj"),
        ("from_generator", "generator args=None"),
        ("list_files", "file_pattern shuffle=None seed=None"),
        ("text_lines", "files errors=surrogateescape"),
        ("zip", "args datasets=None"),
        ("map", "map_func num_parallel_calls=None deterministic=None executor=thread"),
        ("map_batches", "fn num_parallel_calls=None executor=None"),
        ("with_options", "options"),
        ("reduce", "initial_state reduce_func"),
        ("get_single_element", ""),
        ("filter", "predicate"),
        ("take", "count"),
        ("skip", "count"),
        ("shard", "num_shards index"),
        ("enumerate", "start=0"),
        ("concatenate", "dataset"),
        ("repeat", "count=None"),
        ("cache", "filename="),
        ("apply", "transformation_func"),
        ("cardinality", ""),
        ("as_numpy_iterator", ""),
        ("iterator", "state=None seed=None"),
    ],
)
def test_parameters_have_the_names_and_order_of_tf_data(method, parameters):
    signature = inspect.signature(getattr(Dataset, method))
    shown = [
        p.name if p.default is p.empty else f"{p.name}={p.default}"
        for p in signature.parameters.values()
        if p.name != "self"
    ]

    assert shown == parameters.split()


def test_a_dataset_cannot_be_changed():
    ds = Dataset.range(3)

    with pytest.raises(AttributeError):
        ds.node = Dataset.range(4).node
    with pytest.raises(AttributeError):
        ds.other = 1
    with pytest.raises(AttributeError):
        ds.node.stop = 4
