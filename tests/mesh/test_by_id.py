"""Reading by id: what one process registers, others read that have none of its code."""

import json
import subprocess
import sys
import textwrap
from collections import Counter

import numpy as np
import pytest

from penstock.analysis.array_spec import ArraySpec
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, PenstockError, UnknownDataset
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.service import SHARD_HINT, ShardingPolicy, from_dataset_id, register_dataset

USERS = """
from typing import NamedTuple

import numpy as np


class Example(NamedTuple):
    number: np.int64
    text: str


def example(x):
    return Example(x * x, "x" * int(x))
"""

REGISTERS = """
import sys

from users import example

from penstock import Dataset
from penstock.service import register_dataset

target = sys.argv[1]
print(register_dataset(target, Dataset.range(30).map(example), dataset_id="examples"))
"""

READS = """
import json
import sys

from penstock.service import from_dataset_id

dataset = from_dataset_id("distributed_epoch", sys.argv[1], "examples", job_name="epoch")
assert "users" not in sys.modules
elements = [(int(e.number), e.text) for e in dataset]
try:
    import users
except ImportError:
    print(json.dumps([str(dataset.element_spec), elements]))
"""


@pytest.mark.slow
def test_a_process_without_any_of_the_code_reads_what_another_registered(cluster, tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
    (there / "users.py").write_text(textwrap.dedent(USERS))

    def run(folder, code):
        (folder / "main.py").write_text(code)
        command = [sys.executable, "main.py", cluster.target]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(there, REGISTERS).strip() == "examples"
    spec, elements = json.loads(run(here, READS))

    assert spec.startswith("Example(number=ArraySpec(shape=(), dtype=dtype('int64')), text=")
    assert sorted(map(tuple, elements)) == sorted((x * x, "x" * x) for x in range(30))


def test_equal_pipelines_have_one_id_and_names_of_jobs_are_each_ids_own(cluster, numbers):
    def build():
        return Dataset.range(40).map(lambda x: x + 1)

    made = register_dataset(cluster.target, build())
    assert register_dataset(cluster.target, build()) == made
    register_dataset(cluster.target, build(), dataset_id="plus one", compression=None)

    def read(dataset_id, job_name="one name", mode="distributed_epoch"):
        return from_dataset_id(mode, cluster.target, dataset_id, job_name=job_name)

    assert sorted(numbers(read(made))) == list(range(1, 41))
    assert sorted(numbers(read("plus one"))) == list(range(1, 41))
    shared = [iter(read("plus one", "shared")) for _ in range(2)]
    assert sorted(int(x) for it in shared for x in it) == list(range(1, 41))
    assert Counter(numbers(read(made, None, "parallel_epochs"))) == Counter(2 * list(range(1, 41)))


def test_operators_behind_it_and_saved_states_are_as_with_the_pipeline(one_worker):
    register_dataset(one_worker.target, Dataset.range(20), dataset_id="twenty")
    dataset = from_dataset_id("distributed_epoch", one_worker.target, "twenty").batch(6)

    with iter(dataset) as batches:
        first = next(batches)
        state = batches.state()
    rest = list(dataset.iterator(state))

    assert dataset.element_spec == ArraySpec((None,), np.dtype("int64"))
    assert np.concatenate([first, *rest]).tolist() == list(range(20))


def test_an_empty_dataset_is_read_by_its_id_and_says_what_its_elements_would_be(cluster):
    name = register_dataset(cluster.target, Dataset.range(0))

    dataset = from_dataset_id("distributed_epoch", cluster.target, name)

    assert dataset.element_spec == ArraySpec((), np.dtype("int64"))
    assert list(dataset) == []


def test_cardinality_is_that_of_a_reader(cluster):
    def cardinality(dataset, mode="distributed_epoch"):
        name = register_dataset(cluster.target, dataset)
        return from_dataset_id(mode, cluster.target, name).cardinality()

    assert cardinality(Dataset.range(0)) == 0
    assert cardinality(Dataset.range(5)) == UNKNOWN
    for mode in ("parallel_epochs", "distributed_epoch"):
        assert cardinality(Dataset.range(5).repeat(), mode) == INFINITE


def test_what_cannot_be_is_said_at_once(cluster):
    def read(dataset_id, mode="distributed_epoch", **more):
        return from_dataset_id(mode, cluster.target, dataset_id, **more)

    register_dataset(cluster.target, Dataset.range(3), dataset_id="three")
    generated = register_dataset(
        cluster.target, Dataset.from_generator(lambda: iter([1])), dataset_id="generated"
    )

    with pytest.raises(UnknownDataset, match="'nobody' at .*register_dataset"):
        read("nobody")
    with pytest.raises(DatasetError, match="float32.*int64"):
        read("three", element_spec=ArraySpec((), np.dtype("f4")))
    with pytest.raises(DatasetError, match="parallel_epochs"):
        read(generated)
    assert list(read(generated, "parallel_epochs", element_spec=ArraySpec((), np.dtype("i8"))))
    with pytest.raises(DatasetError, match="three.*Of the two, range: stop is 3 in one and 4"):
        register_dataset(cluster.target, Dataset.range(4), dataset_id="three")


@pytest.mark.parametrize("mode", [ShardingPolicy.FILE, ShardingPolicy.HINT])
def test_fixed_parts_are_cut_where_the_pipeline_is(cluster, mode):
    name = register_dataset(cluster.target, Dataset.range(8).shard(SHARD_HINT, 0))

    dataset = from_dataset_id(mode, cluster.target, name)

    with pytest.raises(PenstockError, match="worker_addresses"):
        list(dataset)


def test_other_local_work_may_follow(cluster):
    name = register_dataset(cluster.target, Dataset.range(8), dataset_id="eight")
    dataset = from_dataset_id("distributed_epoch", cluster.target, name).map(lambda x: x * 2)

    for _ in range(2):  # two passes of one dataset object
        assert sorted(int(x) for x in dataset) == list(range(0, 16, 2))
