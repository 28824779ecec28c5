"""A loader reads pass after pass, and goes on from a state in any of them."""

import json
import os

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Closed, DatasetError, StateError
from penstock.loading.loader import FrameworkLoader, jobs
from penstock.options import Options


class IntLoader(FrameworkLoader):
    framework = "tests.IntLoader"

    def __init__(self, dataset, prefetch=2, steps=None):
        super().__init__(dataset, prefetch)
        self._most = steps

    def _place(self, element):
        return int(element)

    def _goes_on(self, *, here):
        return here and (self._most is None or self.steps < self._most)


def saved(loader):
    return json.loads(json.dumps(loader.state_dict()))


def test_each_iter_is_a_pass():
    with IntLoader(Dataset.range(4)) as loader:
        assert [list(loader), loader.epoch, loader.steps] == [[0, 1, 2, 3], 0, 4]
        assert [list(loader), loader.epoch, loader.steps] == [[0, 1, 2, 3], 1, 4]
        assert len(loader) == 4


def test_with_one_seed_the_passes_of_a_resumed_loader_are_those_of_the_first_run():
    def loader():
        return IntLoader(Dataset.range(50).shuffle(50).with_options(Options(seed=7)))

    with loader() as whole:
        passes = [list(whole) for _ in range(3)]
    first, again = loader(), loader()
    list(first)
    again.load_state_dict(saved(first))

    assert [list(again), list(again)] == passes[1:]
    assert passes[1] != passes[2]


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_state_goes_on_within_its_pass_and_then_with_the_next_one(steps):
    first = IntLoader(Dataset.range(4))
    list(first)
    elements = iter(first)
    assert [next(elements) for _ in range(steps)] == list(range(steps))

    again = IntLoader(Dataset.range(4), prefetch=0)
    again.load_state_dict(saved(first))

    assert list(again) == list(range(steps, 4))
    assert (again.epoch, again.steps) == (1, 4)
    assert (list(again), again.epoch) == ([0, 1, 2, 3], 2)
    first.close()


def test_the_state_of_a_pass_that_is_over_is_the_beginning_of_the_next_one():
    first = IntLoader(Dataset.range(3))
    list(first)
    again = IntLoader(Dataset.range(3))
    again.load_state_dict(saved(first))

    assert (list(again), again.epoch) == ([0, 1, 2], 1)


def test_a_state_can_be_saved_after_close_where_the_pass_was_over_and_else_not():
    with IntLoader(Dataset.range(3)) as loader:
        list(loader)
    assert loader.state_dict()["finished"]

    next(iter(loader))
    loader.close()
    with pytest.raises(Closed):
        loader.state_dict()


def test_a_state_that_was_loaded_is_there_before_the_first_element():
    first = IntLoader(Dataset.range(3))
    next(iter(first))
    again = IntLoader(Dataset.range(3))
    again.load_state_dict(saved(first))
    iter(again)

    assert saved(again) == saved(first)
    assert (again.epoch, again.steps) == (0, 1)
    first.close()


def test_an_iter_that_reads_nothing_is_no_pass():
    loader = IntLoader(Dataset.range(3))
    iter(loader)

    assert (list(loader), loader.epoch) == ([0, 1, 2], 0)


def test_a_new_pass_closes_the_one_before():
    with IntLoader(Dataset.range(3)) as loader:
        before = iter(loader)
        next(before)
        next(iter(loader))

        with pytest.raises(Closed, match="begin another one"):
            next(before)


def test_the_iterator_of_the_pass_is_there_for_those_who_ask_it():
    with IntLoader(Dataset.range(3)) as loader:
        elements = iter(loader)
        assert loader.iterator is None
        next(elements)

        assert loader.iterator.stats().loop.steps == 1


def test_what_came_and_is_not_handed_out_is_counted():
    with IntLoader(Dataset.range(9), steps=4) as loader:
        assert list(loader) == [0, 1, 2, 3]
        assert loader.missed == 1
        assert loader.state_dict()["finished"]


def test_a_loader_used_after_a_fork_says_so():
    loader = IntLoader(Dataset.range(3))
    heard, told = os.pipe()
    if not (child := os.fork()):
        try:
            iter(loader)
        except DatasetError as error:
            os.write(told, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    said = os.read(heard, 10_000).decode()
    os.close(heard)
    os.close(told)
    assert said.startswith(f"tests.IntLoader: this loader was made in process {os.getpid()}")
    assert "num_workers=0" in said


@pytest.mark.parametrize("given", [[1, 2], None, "x"])
def test_anything_else_than_a_dataset_is_refused(given):
    with pytest.raises(DatasetError, match=r"give a penstock.Dataset, not .*from_torch"):
        IntLoader(given)


def test_a_state_of_another_dataset_is_refused_where_the_first_element_is_asked_for():
    first = IntLoader(Dataset.range(3))
    next(iter(first))
    other = IntLoader(Dataset.range(3).take(2))
    other.load_state_dict(saved(first))

    with pytest.raises(StateError, match="another pipeline"):
        next(iter(other))
    first.close()


def test_the_length_of_what_has_none_is_a_type_error():
    with pytest.raises(TypeError, match="infinite"):
        len(IntLoader(Dataset.counter()))
    with pytest.raises(TypeError, match="unknown"):
        len(IntLoader(Dataset.range(3).filter(lambda x: x > 0)))


def test_jobs_are_the_distributes_of_a_pipeline():
    read = Dataset.range(3).distribute("distributed_epoch", "localhost:1", "one").batch(2)

    assert [job.job_name for job in jobs(read.node)] == ["one"]
    assert jobs(Dataset.range(3).node) == []


def test_a_job_is_read_pass_after_pass_and_restored_in_any_of_them(cluster):
    def dataset(name):
        return Dataset.range(60).distribute("distributed_epoch", cluster.target, name)

    with IntLoader(dataset("loaded")) as loader:
        assert sorted(loader) == list(range(60))
        ended = saved(loader)
        elements = iter(loader)
        before = [next(elements) for _ in range(25)]
        state = saved(loader)
    with IntLoader(dataset("loaded, on")) as again:
        again.load_state_dict(state)
        assert sorted(before + list(again)) == list(range(60))
        assert (again.epoch, again.steps) == (1, 60)
    with IntLoader(dataset("loaded, next")) as again:
        again.load_state_dict(ended)
        assert (sorted(again), again.epoch) == (list(range(60)), 1)


class BatchLoader(IntLoader):
    def _place(self, element):
        return element


@pytest.mark.parametrize(
    ("build", "elements"),
    [
        (lambda numbers: numbers.batch(4), 4),
        (lambda numbers: numbers.batch(4).map(lambda batch: batch + 1).prefetch(2), 4),
        (lambda numbers: numbers.map(lambda x: [x] * 3), 1),
    ],
    ids=["batches", "mapped batches", "vectors"],
)
def test_of_a_batch_that_is_left_out_each_element_counts(build, elements):
    with BatchLoader(build(Dataset.range(20)), steps=2) as loader:
        assert len(list(loader)) == 2
        assert loader.missed == elements
