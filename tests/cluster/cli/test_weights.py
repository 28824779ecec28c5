"""`penstock weights`: shows the shares of a job's mixture, and changes them while it runs."""

from functools import partial

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError
from penstock_cluster.cli import weights


def mixture():
    web, code = Dataset.range(1000), Dataset.range(1000, 2000)
    return Dataset.mixture({"web": web, "code": code}, {"web": 3, "code": 1}, turns_per_task=16)


@pytest.fixture
def job(one_worker, request):
    """The target and the name of a job that is being read."""
    name = request.node.name
    dataset = (
        mixture().take(5000).distribute("distributed_epoch", one_worker.target, name, ordered=True)
    )
    with iter(dataset) as elements:
        next(elements)
        yield one_worker.target, name


@pytest.fixture
def of_weights(called):
    """Runs ``penstock weights`` in this process."""
    return partial(called, "weights")


def test_pairs_change_the_weights_and_none_shows_them(job, of_weights):
    code, out, _ = of_weights(*job, "web=0.5", "code=0.5")
    assert code == 0
    turn = int(out.split()[-2])
    assert out == f"the weights hold from turn {turn} on\n"

    code, out, _ = of_weights(*job)
    assert code == 0
    assert "50.0 %" in out
    assert "75.0 % / 7" in out
    assert f"{turn:,}" in out


def test_a_turn_that_tasks_have_is_an_error_that_names_the_first_possible_one(job, of_weights):
    code, _, err = of_weights(*job, "web=1", "--at", "0")

    assert code == 2
    assert "tasks have the turns before" in err


def test_the_target_may_come_from_the_environment(job, of_weights, monkeypatch):
    target, name = job
    monkeypatch.setenv("PENSTOCK_TARGET", target)

    assert of_weights(name, "web=1")[0] == 0


def test_a_job_that_reads_no_mixture_is_named(one_worker, request, of_weights):
    name = request.node.name
    numbers = Dataset.range(100).distribute("distributed_epoch", one_worker.target, name)
    with iter(numbers) as elements:
        next(elements)
        code, _, err = of_weights(one_worker.target, name)

    assert code != 0
    assert "reads no mixture now" in err


@pytest.mark.parametrize("args", [[], ["web=1"], ["localhost:1", "job", "--at", "5"]])
def test_a_call_without_a_job_or_weights_is_a_usage_error(args, of_weights, monkeypatch):
    monkeypatch.setenv("PENSTOCK_TARGET", "localhost:1")

    assert of_weights(*args)[0] == 2


def test_words_that_are_no_weights_are_named():
    assert weights.weights_of(["web=0.5", "a=b=2"]) == {"web": 0.5, "a=b": 2.0}
    with pytest.raises(ConfigError, match="'web=much' is no weight"):
        weights.weights_of(["web=much"])


def test_the_shares_of_any_span_of_turns_are_shown(job, of_weights):
    _, out, _ = of_weights(*job, "web=1", "code=1", "--at", "3000")
    assert out == "the weights hold from turn 3000 on\n"

    code, out, _ = of_weights(*job, "--turns", "0:400")
    assert code == 0
    assert "turns 0 to 400" in out
    assert "300" in out
    assert "75.0 %" in out
    _, out, _ = of_weights(*job, "--turns", "3000:3100")
    assert out.count("50.0 %") == 4


@pytest.mark.parametrize("span", ["5", "5:", "6:5", "a:b", "-1:5"])
def test_words_that_are_no_span_of_turns_are_refused(span):
    with pytest.raises(ConfigError, match="is no span of turns: write FIRST:END"):
        weights.turns_of(span)


def test_turns_and_new_weights_exclude_each_other(of_weights):
    code, _, err = of_weights("localhost:1", "job", "web=1", "--turns", "0:5")

    assert code == 2
    assert "leave out SOURCE=WEIGHT, or --turns" in err
