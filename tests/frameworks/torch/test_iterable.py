"""`as_iterable` behind PyTorch's own `DataLoader`, and torchdata's."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from penstock import Dataset
from penstock.torch import as_iterable


def dataset(count=30):
    return Dataset.range(count).shuffle(10).batch(4)


def values(batches):
    return [int(x) for batch in batches for x in batch]


def test_a_dataloader_reads_each_element_once():
    batches = DataLoader(as_iterable(dataset()), batch_size=None)

    assert sorted(values(batches)) == list(range(30))
    assert sorted(values(batches)) == list(range(30))
    assert len(batches) == 8


def test_a_dataloader_makes_batches_of_samples():
    samples = Dataset.range(7).map(lambda x: {"x": np.float32([x, x])})

    batches = list(DataLoader(as_iterable(samples), batch_size=3))

    assert [tuple(batch["x"].shape) for batch in batches] == [(3, 2), (3, 2), (1, 2)]


FORKED = """
from torch.utils.data import DataLoader
from penstock import Dataset
from penstock.torch import as_iterable
list(DataLoader(as_iterable(Dataset.range(9)), batch_size=None, num_workers={workers}))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_of_a_dataloader_are_refused(workers):
    code = FORKED.format(workers=workers)

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)

    assert ran.returncode
    assert f"this is process 0 of {workers} of a DataLoader" in ran.stderr
    assert "use num_workers=0" in ran.stderr


@pytest.mark.parametrize("steps", [0, 3, 8])
def test_a_stateful_dataloader_goes_on_where_it_was_saved(steps):
    pipeline = dataset()
    first = StatefulDataLoader(as_iterable(pipeline), batch_size=None)
    batches = iter(first)
    for _ in range(steps):
        next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    rest = values(batches)

    again = StatefulDataLoader(as_iterable(pipeline), batch_size=None)
    again.load_state_dict(copy.deepcopy(state))

    assert values(again) == rest
    assert sorted(values(again)) == list(range(30))


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
