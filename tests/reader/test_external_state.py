"""`Options.external_state_policy`: what promises less is refused, warned of, or let be."""

import logging
import random

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.options import Options
from penstock.reader.external_state import check_external_state

FAIL, WARN, IGNORE = (Options(external_state_policy=p) for p in ("fail", "warn", "ignore"))
NAMED = (
    r"external_state_policy is \"fail\".* map\(jitter\) draws on random.random.* keyword-only "
    "parameter rng"
)


def jitter(x):
    return x + random.random()


def weak():
    return Dataset.range(4).map(jitter)


def far(dataset):
    return dataset.distribute("distributed_epoch", "grpc://127.0.0.1:1", timeout=0.1)


def warnings(caplog, *datasets):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "penstock"):
        for each in datasets:
            check_external_state(each.node)
    return caplog.messages


@pytest.mark.parametrize(
    "dataset",
    [weak().with_options(FAIL), Dataset.range(4).with_options(FAIL).map(jitter)],
    ids=["behind", "before"],
)
def test_a_weak_pipeline_that_must_not_be_is_refused_when_it_is_distributed(dataset):
    with pytest.raises(DatasetError, match=NAMED):
        far(dataset)


@pytest.mark.parametrize(
    "read",
    [
        iter,
        Dataset.iterator,
        Dataset.as_numpy_iterator,
        Dataset.get_single_element,
        lambda ds: ds.reduce(0, lambda total, x: total + x),
    ],
)
@pytest.mark.parametrize("make", [weak, lambda: far(weak())], ids=["here", "far"])
def test_else_it_is_refused_when_it_is_read_before_anybody_is_called(make, read):
    with pytest.raises(DatasetError, match=NAMED):
        read(make().with_options(FAIL))


def test_whatever_visitation_gives_as_a_reason_is_refused():
    dataset = Dataset.range(4).map(abs, 2, deterministic=False).with_options(FAIL)

    with pytest.raises(DatasetError, match="leave deterministic at True"):
        iter(dataset)


def test_what_is_exact_or_never_made_again_may_be_read():
    exact = Dataset.range(4).map(abs).shuffle(4).with_options(FAIL)

    assert sorted(exact) == [0, 1, 2, 3]
    check_external_state(far(exact).map(jitter).with_options(FAIL).node)


def test_of_several_policies_the_last_one_holds(caplog):
    assert not warnings(caplog, far(weak().with_options(WARN)).with_options(IGNORE))
    assert len(list(weak().with_options(FAIL).with_options(IGNORE))) == 4
    with pytest.raises(DatasetError, match=NAMED):
        iter(far(weak().with_options(IGNORE)).with_options(FAIL))


@pytest.mark.parametrize("options", [Options(), WARN], ids=["by default", "said"])
def test_a_weak_pipeline_is_warned_of_once_with_the_remedy(caplog, options):
    dataset = far(weak().with_options(options))

    (said,) = warnings(caplog, dataset, dataset, dataset.batch(2))

    assert "map(jitter) draws on random.random" in said
    assert "keyword-only parameter rng" in said
    assert 'external_state_policy="ignore"' in said


def test_nothing_is_said_of_an_exact_one_of_what_runs_here_and_where_that_was_asked_for(caplog):
    quiet = far(weak().with_options(IGNORE))

    assert not warnings(caplog, quiet, far(Dataset.range(4)), weak(), weak().with_options(WARN))
