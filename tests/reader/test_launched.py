"""What `distribute` takes from the environment."""

import json

import pytest

from penstock import Dataset
from penstock.errors import DatasetError
from penstock.reader.launched import Asked, WholeName, filled_in
from penstock.reader.trainer import CrossTrainerCache

CONFIG = {"cluster": {"chief": ["c:1"], "worker": ["w:1", "v:1"]}, "task": {"type": "worker"}}


@pytest.fixture
def environment(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "PENSTOCK_TARGET", "PENSTOCK_TRIAL"):
        monkeypatch.delenv(name, raising=False)

    def put(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value if isinstance(value, str) else json.dumps(value))

    return put


def asked(service="env", name="job", index="env", number=None, cache=None):
    return filled_in(Asked(service, name, index, number, cache))


def test_the_dispatcher_is_on_the_chiefs_host_and_the_task_says_which_consumer(environment):
    environment(TF_CONFIG=CONFIG)

    found = asked()

    assert (found.service, found.consumer_index, found.num_consumers) == ("c:7000", 1, 3)
    assert found.job_name == "job"


def test_the_dispatchers_own_entry_goes_before_the_chief(environment):
    environment(TF_CONFIG={**CONFIG, "cluster": {**CONFIG["cluster"], "dispatcher": ["d:9"]}})
    assert asked().service == "d:9"

    environment(PENSTOCK_TARGET="grpc://t:8")
    assert asked().service == "t:8"


@pytest.mark.parametrize(
    ("chief", "service"),
    [("[::1]:5", "[::1]:7000"), ("::1", "[::1]:7000"), ("host", "host:7000")],
)
def test_the_host_of_an_address_is_found(environment, chief, service):
    environment(TF_CONFIG={"cluster": {"chief": [chief]}, "task": {"type": "chief"}})

    assert asked().service == service


def test_a_job_is_scoped_by_its_trial_and_a_cache_is_shared_by_trials(environment):
    environment(TF_CONFIG={**CONFIG, "task": {"type": "chief", "trial": "4"}})

    assert asked().job_name == "job (trial 4)"
    shared = asked(index=None, cache=CrossTrainerCache("env"))
    assert (shared.job_name, shared.cache) == ("job", CrossTrainerCache("4"))


ARRAY = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_ARRAY_TASK_ID": "7"}


@pytest.mark.parametrize("variables", [{"PENSTOCK_TRIAL": "7"}, ARRAY])
def test_a_trial_has_its_own_job_also_with_an_explicit_address(environment, variables):
    environment(**variables)

    assert asked("a:1", index=None).job_name == "job (trial 7)"
    assert asked("a:1", name=None, index=None).job_name is None


def test_trials_share_a_cached_job_each_as_a_trainer_of_its_own(environment):
    environment(PENSTOCK_TRIAL="7")

    for service in ("a:1", "env"):
        environment(PENSTOCK_TARGET="t:8")
        shared = asked(service, index=None, cache=CrossTrainerCache("me"))
        assert (shared.job_name, shared.cache.trainer_id) == ("job", "me (trial 7)")


def test_an_empty_trial_and_a_name_that_others_gave_share_the_job(environment):
    environment(**ARRAY, PENSTOCK_TRIAL="")
    assert asked("a:1", index=None).job_name == "job"

    environment(PENSTOCK_TRIAL="7")
    assert asked("a:1", name=WholeName("job"), index=None).job_name == "job"


def test_variables_that_contradict_each_other_are_no_error_where_nobody_asked(environment):
    environment(RANK="0", WORLD_SIZE="4", SLURM_PROCID="0", SLURM_NTASKS="2")

    assert asked("a:1", index=None).job_name == "job"


def test_what_does_not_ask_for_it_is_left_alone(environment):
    environment(TF_CONFIG="no JSON at all")

    given = Asked("a:1", "job", 0, 2, CrossTrainerCache("me"))
    assert filled_in(given) is given


@pytest.mark.parametrize(
    ("variables", "number", "said"),
    [
        ({"TF_CONFIG": {**CONFIG, "task": {"type": "evaluator"}}}, None, "is the evaluator of its"),
        ({"TF_CONFIG": CONFIG}, 2, "num_consumers=2, but by TF_CONFIG, cluster 3 processes train"),
        (
            {"JOB_COMPLETION_INDEX": "1", "PENSTOCK_TARGET": "t:8"},
            None,
            "set PENSTOCK_NUM_CONSUMERS",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "1"},
            None,
            "says where the dispatcher is: set PENSTOCK_TARGET",
        ),
    ],
)
def test_what_the_environment_does_not_say_is_named(environment, variables, number, said):
    environment(**variables)

    with pytest.raises(DatasetError, match=said):
        asked(number=number)


def test_distribute_takes_it(environment):
    environment(TF_CONFIG=CONFIG)

    far = Dataset.range(4).distribute("distributed_epoch", "env", "job", consumer_index="env")

    assert "c:7000" in repr(far.node)
