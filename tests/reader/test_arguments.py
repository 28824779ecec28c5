"""What `distribute` is given: what it stands for, and what is refused."""

import json
from pathlib import Path

import pytest

from penstock import Dataset
from penstock.errors import DatasetError
from penstock.protocol.types import Codec, Mode, ShardingPolicy
from penstock.reader import arguments
from penstock.reader.agreement import CrossTrainerCache
from penstock.reader.arguments import Asked, WholeName, filled_in


@pytest.mark.parametrize(
    "given, mode",
    [
        ("parallel_epochs", Mode.OFF),
        (ShardingPolicy.OFF, Mode.OFF),
        (ShardingPolicy.FILE, Mode.FILE),
        (ShardingPolicy.DATA, Mode.DATA),
        (ShardingPolicy.FILE_OR_DATA, Mode.FILE_OR_DATA),
        (ShardingPolicy.HINT, Mode.HINT),
        ("distributed_epoch", Mode.DYNAMIC),
        (ShardingPolicy.DYNAMIC, Mode.DYNAMIC),
    ],
)
def test_a_mode_has_an_older_name(given, mode):
    assert arguments.mode_of(given) is mode


@pytest.mark.parametrize("given", ["epochs", None, 1])
def test_what_is_no_mode_is_refused_with_the_names_there_are(given):
    with pytest.raises(DatasetError, match="'parallel_epochs' or 'distributed_epoch'"):
        arguments.mode_of(given)


@pytest.mark.parametrize("given", ["h:1", "grpc://h:1", ("grpc", "h:1")])
def test_an_address_may_name_its_protocol(given):
    assert arguments.address_of(given) == "h:1"


@pytest.mark.parametrize(
    "given",
    ["", "h", "h:", "h:0", "h:65536", "http://h:1", "grpc://grpc://h:1", "h/x:1", 5, ("grpc",)],
)
def test_a_malformed_address_is_refused(given):
    with pytest.raises(DatasetError, match="service"):
        arguments.address_of(given)


@pytest.mark.parametrize(
    "given, codec",
    [(None, Codec.NONE), ("LZ4", Codec.LZ4), ("ZSTD", Codec.ZSTD), ("AUTO", Codec.AUTO)],
)
def test_a_codec_has_a_name(given, codec):
    assert arguments.codec_of(given) is codec
    with pytest.raises(DatasetError, match="compression"):
        arguments.codec_of(f"{given}?")


def test_a_job_name_is_short_text_or_none():
    assert arguments.job_name_of(None) is None
    assert arguments.job_name_of("j") == "j"
    for given in ("", " ", 3, "x" * 100_000):
        with pytest.raises(DatasetError, match="job_name"):
            arguments.job_name_of(given)


def test_which_workers_are_read_is_written_in_any_case():
    assert [arguments.target_workers_of(given) for given in ("local", "Any", "AUTO", "")] == [
        "LOCAL",
        "ANY",
        "AUTO",
        "AUTO",
    ]
    for given in ("NEAR", None, 3):
        with pytest.raises(DatasetError, match="'AUTO', 'ANY' or 'LOCAL'"):
            arguments.target_workers_of(given)


def test_a_transport_that_nobody_registered_is_refused_by_naming_those_there_are():
    assert [arguments.transport_of(given) for given in (None, "grpc", "local")] == [
        None,
        "grpc",
        "local",
    ]
    with pytest.raises(
        DatasetError, match="None or one of 'grpc', 'local', 'shm', 'tcp', not 'udp'"
    ):
        arguments.transport_of("udp")


@pytest.mark.parametrize(
    "given, service, env, folder",
    [
        (None, "h:1", {}, None),
        (None, "h:1", {"PENSTOCK_CREDENTIALS": "e"}, None),
        (None, "grpc://h:1", {"PENSTOCK_CREDENTIALS": "e"}, ""),
        (None, "grpcs://h:1", {"PENSTOCK_CREDENTIALS": "e"}, "e"),
        ("f", "h:1", {"PENSTOCK_CREDENTIALS": "e"}, "f"),
        (Path("f"), "grpcs://h:1", {}, "f"),
        ("f", ("grpcs", "h:1"), {}, "f"),
    ],
)
def test_credentials_are_those_given_or_the_variable_s_and_none_for_grpc(
    given, service, env, folder
):
    assert arguments.credentials_of(given, service, env) == folder


@pytest.mark.parametrize(
    "given, service, words",
    [
        (None, "grpcs://h:1", "PENSTOCK_CREDENTIALS"),
        ("f", "grpc://h:1", "say grpcs://"),
        (5, "h:1", "must be a folder's path"),
    ],
)
def test_credentials_that_contradict_the_address_are_refused_with_the_remedy(given, service, words):
    with pytest.raises(DatasetError, match=words):
        arguments.credentials_of(given, service, {})


@pytest.mark.parametrize("service", ["grpcs://secret@h:1", "grpc://h:1?token=secret", "secret@h:1"])
def test_a_token_in_an_address_is_refused_and_not_repeated(service):
    with pytest.raises(DatasetError, match="must not hold a token") as raised:
        arguments.address_of(service)

    assert "secret" not in str(raised.value)


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
