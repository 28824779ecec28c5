"""`penstock.jax.Loader`: global arrays under a sharding, in one process and in two."""

import os
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from penstock import Dataset
from penstock.errors import DatasetError, ElementError
from penstock.jax import Loader
from tests.frameworks.processes import run_ranks

PROGRAM = Path(__file__).parent / "two_processes.py"


def sharded(*axes, shape=(4,), names=("data",)):
    return NamedSharding(jax.make_mesh(shape, names), PartitionSpec(*axes))


def samples(count=32):
    return Dataset.range(count).map(lambda x: {"x": np.float32([x, x + 1, x, 0]), "n": np.int32(x)})


def test_without_a_sharding_arrays_are_on_the_default_device():
    (batch,) = Loader(samples(3).batch(3))

    assert batch["x"].devices() == {jax.devices()[0]}
    assert (batch["x"].dtype, batch["n"].tolist()) == (np.float32, [0, 1, 2])


@pytest.mark.parametrize(
    ("axes", "mesh"),
    [
        (("data",), {}),
        (("data", None), {}),
        ((None, "data"), {}),
        ((), {}),
        (("data", "model"), {"shape": (2, 2), "names": ("data", "model")}),
    ],
)
def test_batches_are_divided_as_the_sharding_says_and_hold_the_same(axes, mesh):
    sharding = sharded(*axes, **mesh)
    batches = Dataset.range(16).map(lambda x: np.full(8, x, np.float32)).batch(8)

    placed = list(Loader(batches, sharding))

    for there, here in zip(placed, batches, strict=True):
        assert there.sharding == sharding
        np.testing.assert_array_equal(there, here)


def test_a_nest_of_shardings_is_one_for_each_array():
    rows, whole = sharded("data"), sharded()

    (batch,) = Loader(samples(4).batch(4), {"x": rows, "n": whole})

    assert (batch["x"].sharding, batch["n"].sharding) == (rows, whole)


def test_a_nest_of_shardings_that_is_not_the_elements_is_refused():
    with pytest.raises(ElementError, match="one sharding for each"):
        next(iter(Loader(samples(4).batch(4), {"x": sharded("data")})))


def test_a_batch_that_does_not_divide_is_an_error_that_says_how_to_make_it():
    with pytest.raises(ElementError, match="drop_remainder=True"):
        next(iter(Loader(Dataset.range(3).batch(3), sharded("data"))))


def test_anything_else_than_a_sharding_is_refused():
    with pytest.raises(DatasetError, match="must be a jax.sharding.Sharding"):
        Loader(samples(), "data")


def test_text_is_an_error_that_says_what_to_do():
    with pytest.raises(ElementError, match="JAX has no text"):
        next(iter(Loader(Dataset.from_tensor_slices(["a"]))))


def test_a_job_gives_each_element_once_and_goes_on_from_an_orbax_checkpoint(cluster, tmp_path):
    import orbax.checkpoint as ocp

    def loader():
        read = samples(96).batch(8).distribute("distributed_epoch", cluster.target)
        return Loader(read, sharded("data"))

    with loader() as first, ocp.CheckpointManager(tmp_path, item_names=("input",)) as manager:
        batches = iter(first)
        before = [n for _ in range(5) for n in next(batches)["n"].tolist()]
        manager.save(5, args=ocp.args.Composite(input=ocp.args.JsonSave(first.state_dict())))
        manager.wait_until_finished()
        saved = manager.restore(5, args=ocp.args.Composite(input=ocp.args.JsonRestore()))
    with loader() as again:
        again.load_state_dict(saved.input)
        after = [n for batch in again for n in batch["n"].tolist()]

    assert sorted(before + after) == list(range(96))


def test_two_processes_read_global_arrays_in_rounds(cluster, tmp_path):
    heard = run_ranks(PROGRAM, 2, cluster.target, "two jax processes", log=tmp_path)

    (first, second) = (lines[0] for lines in heard)
    assert first["devices"] == 4
    assert first["sums"] == second["sums"]
    assert len(first["sums"]) >= 11
    assert first["state"]["input"] == second["state"]["input"]
    assert all("consumer_index=jax.process_index()" in lines[0]["refused"] for lines in heard)
    local = first["rows"] + second["rows"]
    assert len(set(local)) == len(local) == 8 * len(first["sums"])
    assert sum(first["sums"]) == sum(local)
