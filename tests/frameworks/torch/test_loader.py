"""`penstock.torch.Loader` in one process."""

import ml_dtypes
import numpy as np
import pytest
import torch

from penstock import Dataset
from penstock.errors import DatasetError, ElementError
from penstock.torch import Loader, as_iterable


def samples(count=20):
    return Dataset.range(count).map(lambda x: {"x": np.float32([x, x / 2]), "even": x % 2 == 0})


def test_batches_come_as_tensors_of_the_same_dtypes():
    (first, *_, last) = Loader(samples().batch(8))

    assert first["x"].dtype == torch.float32
    assert first["even"].dtype == torch.bool
    assert tuple(first["x"].shape) == (8, 2)
    assert last["x"][:, 0].tolist() == [16, 17, 18, 19]


def test_a_loop_may_change_its_batches_in_place():
    values = np.arange(6.0)
    values.flags.writeable = False
    for batch in Loader(Dataset.from_tensors(values).repeat(2)):
        assert batch.sum() == 15
        batch += 1


def test_a_tensor_on_a_device_is_there():
    (batch,) = Loader(Dataset.range(3).batch(3), device="cpu")
    assert batch.device.type == "cpu"

    (batch,) = Loader(Dataset.range(3).batch(3), device="meta")
    assert batch.device.type == "meta"


def test_pinned_memory_without_a_gpu_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(DatasetError, match="torch finds none here"):
        Loader(samples(), pin_memory=True)
    with pytest.raises(DatasetError, match="torch finds none here"):
        Loader(samples(), "cuda")


def test_text_passes_beside_the_tensors():
    made = Dataset.from_tensor_slices({"x": [1, 2, 3, 4], "key": ["a", "b", "c", "d"]})

    for given in (Loader(made.batch(2)), Loader(made.batch(2), "cpu"), as_iterable(made.batch(2))):
        batches = [(batch["x"].tolist(), batch["key"]) for batch in given]
        assert batches == [([1, 2], ["a", "b"]), ([3, 4], ["c", "d"])]
    assert [one["key"] for one in Loader(made)] == ["a", "b", "c", "d"]


def test_text_passes_through_a_data_loader():
    made = Dataset.from_tensor_slices({"x": [1, 2], "key": [b"a", b"b"]}).batch(2)

    (batch,) = torch.utils.data.DataLoader(as_iterable(made), batch_size=None)
    assert batch["key"] == [b"a", b"b"]


def test_times_are_an_error_that_says_what_to_do():
    with pytest.raises(ElementError, match="astype"):
        next(iter(Loader(Dataset.from_tensor_slices(np.zeros(2, "M8[s]")))))


def test_a_job_gives_each_element_once_and_its_memory_where_that_may_be_written_to(cluster):
    dataset = samples(200).batch(10)
    for writable in (False, True):
        read = dataset.distribute("distributed_epoch", cluster.target, writable=writable)
        with Loader(read) as loader:
            seen = [int(x) for batch in loader for x in batch["x"][:, 0]]
        assert sorted(seen) == list(range(200))


def test_bfloat16_travels_from_workers(cluster):
    def make(x):
        import ml_dtypes

        return np.full(3, float(x) / 2, ml_dtypes.bfloat16)

    read = Dataset.range(8).map(make).batch(4).distribute("distributed_epoch", cluster.target)
    with Loader(read) as loader:
        batches = list(loader)

    assert {batch.dtype for batch in batches} == {torch.bfloat16}
    assert sorted(float(x) for batch in batches for x in batch[:, 0]) == [x / 2 for x in range(8)]
    assert read.element_spec.dtype == np.dtype(ml_dtypes.bfloat16)


def test_a_state_goes_into_a_checkpoint_and_back(cluster, tmp_path):
    def loader():
        read = samples(100).batch(10).distribute("distributed_epoch", cluster.target)
        return Loader(read)

    with loader() as first:
        batches = iter(first)
        before = [int(x) for _ in range(4) for x in next(batches)["x"][:, 0]]
        torch.save({"input": first.state_dict()}, tmp_path / "step.pt")
    with loader() as second:
        second.load_state_dict(torch.load(tmp_path / "step.pt")["input"])
        after = [int(x) for batch in second for x in batch["x"][:, 0]]

    assert sorted(before + after) == list(range(100))


def test_to_ask_all_ranks_needs_a_process_group():
    with pytest.raises(DatasetError, match="init_process_group"):
        Loader(samples(), even=True)
