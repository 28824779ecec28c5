"""A pipeline that is not here: what is known of it, and of what stands behind it."""

import numpy as np
import pytest

from penstock.analysis.array_spec import ArraySpec, Specs
from penstock.analysis.element_spec import element_spec, specs_of
from penstock.analysis.registered import SAMPLES, Registered
from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE
from penstock.graph.traversal import options_of
from penstock.options import Options

HERE = "127.0.0.1:5000"


def registered(dataset, specs=None):
    known = specs or (specs_of(dataset.node) if dataset.cardinality() else None)
    return Registered("corpus", encode(dataset.node).without_code, known)


def read(dataset, mode="distributed_epoch"):
    return Dataset(registered(dataset)).distribute(mode, HERE)


@pytest.mark.parametrize("mode", ["parallel_epochs", "distributed_epoch"])
@pytest.mark.parametrize(
    "build",
    [
        lambda: Dataset.range(10).batch(2),
        lambda: Dataset.range(9).batch(2),
        lambda: Dataset.range(10).map(lambda x: ({"a": x}, np.zeros((int(x) + 2, 3)))),
        lambda: Dataset.from_tensor_slices(["a", "b"]),
        lambda: Dataset.from_tensor_slices([b"a", b"b"]).batch(2, drop_remainder=True),
        lambda: Dataset.range(3).map(lambda x: np.array([("a", x)], [("s", "U3"), ("i", "i4")])),
    ],
)
def test_elements_look_as_with_the_pipeline_itself(build, mode):
    assert read(build(), mode).element_spec == build().distribute(mode, HERE).element_spec


@pytest.mark.parametrize(
    "behind",
    [
        lambda d: d.batch(3),
        lambda d: d.map(lambda x: x.astype("f4")).shuffle(5).batch(512, drop_remainder=True),
        lambda d: d.enumerate(),
        lambda d: d.unbatch().batch(4),
        lambda d: d.flat_map(lambda x: Dataset.from_tensor_slices(x)),
    ],
)
def test_so_do_those_of_operators_behind_it(behind):
    pipeline = Dataset.range(1024 * 8).batch(8)

    assert (
        behind(read(pipeline)).element_spec
        == behind(pipeline.distribute("distributed_epoch", HERE)).element_spec
    )


def test_a_filter_that_lets_no_zeros_through_finds_an_end():
    with pytest.raises(DatasetError, match="no elements"):
        element_spec(read(Dataset.range(3)).filter(lambda x: x > 0).node)
    assert SAMPLES < 10**6


def test_what_functions_do_with_zeros_is_told():
    with pytest.raises(Exception, match="ZeroDivision") as caught:
        _ = read(Dataset.range(1, 4)).map(lambda x: 1 // int(x)).element_spec

    assert "elements of zeros" in caught.value.__notes__[-2]


def test_an_unknown_spec_is_an_error_with_the_remedy():
    node = Registered("corpus", encode(Dataset.range(3).node).without_code, None)

    with pytest.raises(DatasetError, match="'corpus'.*element_spec=.*register_dataset"):
        element_spec(node)


def test_a_given_spec_holds_wherever_it_is_read():
    spec = ArraySpec((7,), np.dtype("f4"))
    node = registered(Dataset.range(3), Specs(spec, spec))

    assert Dataset(node).distribute("distributed_epoch", HERE).element_spec == spec


def test_cardinality_and_guarantee_are_those_of_the_pipeline():
    def draw(x):
        return x + np.random.default_rng().integers(3)

    assert registered(Dataset.range(7)).cardinality == 7
    assert read(Dataset.range(7).repeat()).cardinality() == INFINITE
    assert read(Dataset.range(0)).cardinality() == 0
    weak = read(Dataset.range(7).map(draw)).visitation()
    assert "while nothing dies" in str(weak)
    assert "draw" in str(weak)
    assert "'corpus' is not here" in str(weak)


def test_only_what_its_options_say_of_its_guarantee_comes_with_it():
    mine = Options(deterministic=False, threads=3, external_state_policy="ignore")
    options = options_of(registered(Dataset.range(3).with_options(mine)))

    assert options == Options(external_state_policy="ignore")
