"""`as_iterable` behind PyTorch's own `DataLoader`, and torchdata's."""

import copy
import json

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from penstock import Dataset
from penstock.torch import Loader, as_iterable
from tests.frameworks.warm import Program


def dataset(count=30):
    return Dataset.range(count).shuffle(10).batch(4)


def values(batches):
    return [int(x) for batch in batches for x in batch]


def flat(batches):
    return [x for batch in batches for x in batch.flatten().tolist()]


def test_a_dataloader_reads_each_element_once():
    batches = DataLoader(as_iterable(dataset()), batch_size=None)

    assert sorted(values(batches)) == list(range(30))
    assert sorted(values(batches)) == list(range(30))
    assert len(batches) == 8


def test_a_dataloader_makes_batches_of_samples():
    samples = Dataset.range(7).map(lambda x: {"x": np.float32([x, x])})

    batches = list(DataLoader(as_iterable(samples), batch_size=3))

    assert [tuple(batch["x"].shape) for batch in batches] == [(3, 2), (3, 2), (1, 2)]


REFUSED = """
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from penstock import Dataset
from penstock.errors import DatasetError
from penstock.torch import Loader, as_iterable
from tests.frameworks.warm import Program


def read(kind, number, start):
    given = as_iterable(Dataset.range(9))
    loader = kind(given, batch_size=None, num_workers=number, multiprocessing_context=start)
    try:
        print(list(loader))
    except DatasetError as error:
        assert f"this is process 0 of {number} of a DataLoader" in str(error)
        assert "use num_workers=0" in str(error)
        print("refused", flush=True)


if __name__ == "__main__":
    for kind in (DataLoader, StatefulDataLoader):
        read(kind, 2, "fork")
    read(StatefulDataLoader, 1, "spawn")
"""


def test_processes_of_a_dataloader_are_refused_forked_or_spawned(tmp_path):
    program = tmp_path / "loaders.py"
    program.write_text(REFUSED)

    said = Program(program, errors=tmp_path / "errors.txt").said(100)

    assert said.split() == ["refused"] * 3


@pytest.mark.parametrize("steps", [0, 3, 8])
@pytest.mark.parametrize("how", [{}, {"snapshot_every_n_steps": 3}, {"batch_size": 2}])
def test_a_stateful_dataloader_goes_on_where_it_was_saved(steps, how):
    pipeline = dataset(32)

    def loader():
        return StatefulDataLoader(as_iterable(pipeline), **{"batch_size": None, **how})

    first = loader()
    batches = iter(first)
    for _ in range(min(steps, 4) if "batch_size" in how else steps):
        next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    rest = flat(batches)

    again = loader()
    again.load_state_dict(copy.deepcopy(state))

    assert flat(again) == rest
    assert sorted(flat(again)) == list(range(32))


def test_our_loader_has_the_states_that_a_stateful_dataloader_has():
    pipeline = dataset()
    for kind in (Loader, lambda data: StatefulDataLoader(as_iterable(data), batch_size=None)):
        first, again = kind(pipeline), kind(pipeline)
        batches = iter(first)
        before = values([next(batches) for _ in range(3)])
        again.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert sorted(before + values(again)) == list(range(30))
        assert sorted(values(again)) == list(range(30))  # and whole passes behind that


def test_a_job_goes_on_behind_a_stateful_dataloader(cluster):
    def loader():
        read = dataset(100).distribute("distributed_epoch", cluster.target)
        return StatefulDataLoader(as_iterable(read), batch_size=None)

    first = loader()
    batches = iter(first)
    before = values([next(batches) for _ in range(5)])
    state = first.state_dict()
    del batches, first

    again = loader()
    again.load_state_dict(state)

    assert sorted(before + values(again)) == list(range(100))


def test_bool_and_scalars_come_as_tensors():
    ((flag, number),) = DataLoader(as_iterable(Dataset.from_tensors((True, 2))), batch_size=None)

    assert (flag.dtype, int(number)) == (torch.bool, 2)
