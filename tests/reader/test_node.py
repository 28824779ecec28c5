"""Which seed a job has, and the operators behind it."""

from functools import partial

import pytest

from penstock.dataset.dataset import Dataset
from penstock.graph.traversal import walk
from penstock.options import Options
from penstock.reader.node import Distribute, job_seeds


def far(before=None, seed=None, **more):
    source = Dataset.range(9).with_options(Options(seed=before))
    return source.distribute("distributed_epoch", "localhost:1", seed=seed, **more)


def seeds_of(dataset, explicit=None):
    jobs = {path: node for path, node in walk(dataset.node) if isinstance(node, Distribute)}
    found = job_seeds(dataset.node, jobs, explicit)
    return list(found.jobs.values()), found.operators


@pytest.mark.parametrize(
    ("before", "seed", "behind", "explicit", "wins"),
    [
        (None, None, None, None, None),
        (1, None, None, None, 1),
        (1, None, 3, None, 3),
        (1, 2, 3, None, 2),
        (1, 2, 3, 4, 4),
        (None, 0, None, None, 0),
    ],
)
def test_the_iterator_wins_then_distribute_then_the_options_behind_it_then_those_before(
    before, seed, behind, explicit, wins
):
    dataset = far(before, seed).with_options(Options(seed=behind))

    jobs, _ = seeds_of(dataset, explicit)

    assert jobs == [wins]


def test_operators_behind_have_a_seed_that_follows_from_the_one_given():
    here = [seeds_of(far(seed=seed).batch(2))[1] for seed in (7, 7, 8, None, None)]

    assert here[0] == here[1]
    assert len(set(here)) == 4


def test_two_jobs_of_one_iterator_have_different_seeds():
    one, two = seeds_of(Dataset.zip((far(), far())), 7)[0]

    assert one == 7 != two
    assert 0 <= two < 2**63


def test_consumers_and_ranks_draw_apart_behind_distribute(monkeypatch):
    consumer = partial(far, seed=7, job_name="j", num_consumers=2)
    consumers = [seeds_of(consumer(consumer_index=k)) for k in (0, 1, 1)]
    ranks = []
    for rank in ("0", "1", "1"):
        monkeypatch.setenv("RANK", rank)
        ranks.append(seeds_of(far(seed=7, job_name="j")))

    for found in (consumers, ranks):
        assert found[0][0] == found[1][0] == [7]
        assert found[0][1] != found[1][1] == found[2][1]
