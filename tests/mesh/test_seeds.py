"""One seed for a job: what comes, in which order, whatever dies meanwhile."""

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import JobMismatch, StateError
from penstock.options import Options
from penstock.service import from_dataset_id, register_dataset
from tests.mesh.drivers import each

DYNAMIC = "distributed_epoch"


def noisy(x, *, rng):
    return int(x) * 1000 + int(rng.integers(1000))


def source():
    return Dataset.range(300).map(noisy)


def read(dataset, target, seed=None, **more):
    return dataset.distribute(DYNAMIC, target, ordered=True, seed=seed, **more)


def plain(elements):
    return [int(x) for x in elements]


def by_distribute(target, seed):
    dataset = read(source(), target, seed)
    return lambda: plain(dataset)


def by_options_before(target, seed):
    dataset = read(source().with_options(Options(seed=seed)), target)
    return lambda: plain(dataset)


def by_options_behind(target, seed):
    dataset = read(source(), target).shuffle(20).map(noisy).with_options(Options(seed=seed))
    return lambda: plain(dataset)


def by_iterator(target, seed):
    dataset = read(source(), target)
    return lambda: plain(dataset.iterator(seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize(
    "run_of", [by_distribute, by_options_before, by_options_behind, by_iterator]
)
def test_runs_of_one_seed_are_equal_their_epochs_differ_and_another_seed_is_another_run(
    run_of, cluster
):
    runs = [run_of(cluster.target, seed) for seed in (7, 7, 8)]

    first, again, other = ([epoch() for _ in range(2)] for epoch in runs)

    assert first == again
    assert len({str(epoch) for epoch in first + other}) == 4


@pytest.mark.slow
def test_the_order_of_a_global_shuffle_follows_from_the_seed(cluster):
    shuffled = Dataset.range(200).global_shuffle().map(noisy)

    one, two, other = (plain(read(shuffled, cluster.target, seed)) for seed in (7, 7, 8))

    assert one == two != other


@pytest.mark.slow
def test_a_number_of_workers_and_a_death_among_them_change_nothing(another, one_worker):
    alone = plain(read(source(), one_worker.target, 7))
    got = []

    with another(workers=3) as mesh, iter(read(source(), mesh.target, 7)) as elements:
        for x in elements:
            got.append(int(x))
            if len(got) == 40:
                mesh.workers[0].kill()

    assert got == alone


@pytest.mark.quick(1)
@pytest.mark.parametrize("other", [8, None])
def test_readers_of_one_job_agree_on_its_seed(cluster, other):
    name = f"agreed, not {other}"
    with iter(read(source(), cluster.target, 7, job_name=name)) as elements:
        next(elements)
        with pytest.raises(JobMismatch, match=f"its seed is 7, not {other}"):
            iter(read(source(), cluster.target, other, job_name=name))


@pytest.mark.slow
def test_a_saved_job_goes_on_with_its_seed_and_so_do_the_epochs_behind_it(cluster):
    whole = read(source(), cluster.target, 7)
    epochs = [plain(whole) for _ in range(2)]
    with iter(read(source(), cluster.target, 7)) as elements:
        got = [int(next(elements)) for _ in range(50)]
        state = elements.state()

    resumed = read(source(), cluster.target, 7)
    got += plain(resumed.iterator(state))

    assert [got, plain(resumed)] == epochs
    assert plain(read(source(), cluster.target).iterator(state)) == epochs[0][50:]


def test_a_saved_job_is_not_restored_with_another_seed(cluster):
    with iter(read(source(), cluster.target, 7)) as elements:
        state = elements.state()

    with pytest.raises(StateError, match="a job with the seed 7, not 8.*or none"):
        read(source(), cluster.target, 8).iterator(state)


@pytest.mark.slow
def test_what_is_read_by_an_id_takes_a_seed_too(cluster):
    name = register_dataset(cluster.target, source())

    def run(seed):
        return plain(from_dataset_id(DYNAMIC, cluster.target, name, ordered=True, seed=seed))

    assert run(7) == run(7) != run(8)


def test_consumers_of_one_seed_read_the_same_rounds_in_each_run(one_worker):
    def run(name, seed):
        datasets = [
            source().distribute(DYNAMIC, one_worker.target, name, k, 2, seed=seed) for k in (0, 1)
        ]
        return each(plain, datasets)

    assert run("rounds one", 7) == run("rounds two", 7) != run("rounds three", 8)


@pytest.mark.slow
def test_epochs_behind_a_restored_one_are_those_of_the_first_run_also_behind_distribute(cluster):
    def run(name):
        job = read(Dataset.range(60), cluster.target, 7, job_name=name)
        return job.batch(3).unbatch().map(noisy)

    whole, interrupted = run("whole"), run("interrupted")
    epochs = [plain(whole) for _ in range(3)]
    plain(interrupted)
    with iter(interrupted) as elements:
        got = [int(next(elements)) for _ in range(10)]
        state = elements.state()

    resumed = run("interrupted")
    got += plain(resumed.iterator(state))

    assert [got, plain(resumed)] == epochs[1:]
