"""Settings of a worker: what is refused, and where they come from."""

import dataclasses

import pytest

from penstock.errors import ConfigError
from penstock.runtime.settings import to_env
from penstock_worker.config import WorkerConfig
from penstock_worker.server import advertised


def test_the_first_fields_have_the_names_and_the_order_of_the_reference():
    names = [field.name for field in dataclasses.fields(WorkerConfig) if not field.kw_only]

    assert names[:8] == [
        "dispatcher_address",
        "worker_address",
        "port",
        "protocol",
        "heartbeat_interval",
        "dispatcher_timeout",
        "data_transfer_protocol",
        "data_transfer_address",
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dispatcher_address", "nowhere"),
        ("dispatcher_address", "host:"),
        ("dispatcher_address", ":5050"),
        ("dispatcher_address", "host:0"),
        ("dispatcher_address", "host:65536"),
        ("dispatcher_address", "http://host:80"),
        ("dispatcher_address", 5050),
        ("worker_address", "host"),
        ("worker_address", "host:%pott%"),
        ("port", -1),
        ("port", 65536),
        ("port", "7070"),
        ("port", True),
        ("protocol", "carrier pigeon"),
        ("heartbeat_interval", 0),
        ("heartbeat_interval", "1"),
        ("dispatcher_timeout", -1),
        ("dispatcher_timeout", 0),
        ("dispatcher_address", "host:%port%"),
        ("host", ""),
        ("worker_tags", ("",)),
        ("worker_tags", ("x" * 1025,)),
        ("worker_tags", "fast"),
        ("buffer_bytes", 0),
        ("buffer_bytes", 1.5),
        ("total_buffer_bytes", 0),
        ("total_buffer_bytes", "1 GB"),
        ("cross_trainer_cache_size_bytes", 0),
        ("cross_trainer_cache_size_bytes", 1.5),
        ("runner_niceness", -1),
        ("runner_niceness", 20),
        ("runner_niceness", True),
        ("slots", 0),
        ("slots", -1),
        ("slots", 1.5),
        ("slots", True),
        ("slots", 10**6),
        ("drain", -0.1),
        ("drain", None),
    ],
)
def test_a_value_that_makes_no_sense_is_named_with_its_setting(field, value):
    with pytest.raises(ConfigError) as caught:
        WorkerConfig(**{field: value})

    assert field in str(caught.value)
    assert repr(value) in str(caught.value)


def test_a_transport_that_there_is_not_is_refused_by_naming_those_there_are():
    with pytest.raises(ConfigError, match="one of 'grpc', 'local', .* not 'tcp'"):
        WorkerConfig(data_transfer_protocol="tcp")
    assert WorkerConfig(data_transfer_protocol="local") != WorkerConfig()


def test_the_dispatcher_may_be_written_as_it_is_for_readers():
    assert WorkerConfig("grpc://host:5050") == WorkerConfig("host:5050")
    assert WorkerConfig("[::1]:5050").dispatcher_address == "[::1]:5050"


def test_every_setting_can_come_from_the_environment():
    config = WorkerConfig(
        "host:5050", worker_address="me:%port%", port=7, heartbeat_interval=0.5,
        worker_tags=("fast", "near"), buffer_bytes=123, drain=0,
    )  # fmt: skip

    assert WorkerConfig.from_env(to_env(config)) == config
    assert WorkerConfig.from_env({}) == WorkerConfig()


def test_what_is_given_goes_before_the_environment():
    env = {"PENSTOCK_DISPATCHER_ADDRESS": "host:1", "PENSTOCK_PORT": "8"}

    config = WorkerConfig.from_env(env, dispatcher_address="host:2", port=None)

    assert config == WorkerConfig("host:2", port=8)


def test_a_variable_that_cannot_be_read_is_named():
    with pytest.raises(ConfigError, match="PENSTOCK_PORT='seven'"):
        WorkerConfig.from_env({"PENSTOCK_PORT": "seven"})


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "127.0.0.1:7"),
        ({"host": "::1"}, "[::1]:7"),
        ({"worker_address": "me.example:%port%"}, "me.example:7"),
        ({"worker_address": "me.example:70"}, "me.example:70"),
        ({"host": "0.0.0.0", "worker_address": "me.example:%port%"}, "me.example:7"),
    ],
)
def test_readers_are_told_an_address_with_the_bound_port(settings, address):
    assert advertised(WorkerConfig("host:1", **settings), 7) == address


def test_an_open_worker_is_known_by_the_name_of_its_machine():
    import socket

    config = WorkerConfig("host:1", host="0.0.0.0")

    assert advertised(config, 7) == f"{socket.gethostname()}:7"


def test_by_default_there_is_a_slot_for_each_core_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr("penstock_worker.config.cores", lambda: 7)

    assert WorkerConfig().slot_count == 7
    assert WorkerConfig(slots=3).slot_count == 3
    assert WorkerConfig.from_env({"PENSTOCK_SLOTS": "5"}).slot_count == 5


def test_bounds_and_credentials_reach_the_entrance_and_contradictions_are_refused():
    entrance = WorkerConfig(limits={"max_calls": 7, "max_calls_per_identity": 5}).entrance()

    assert (entrance.limits["max_calls"], entrance.limits["max_calls_per_identity"]) == (7, 5)
    with pytest.raises(ConfigError, match="contradict"):
        WorkerConfig(credentials="keys", insecure=True)
    with pytest.raises(ConfigError, match="folder's path"):
        WorkerConfig(credentials=5)
    with pytest.raises(ConfigError, match="True or False"):
        WorkerConfig(insecure="yes")


@pytest.mark.parametrize(
    "given, words",
    [
        ({"runner_memory_bytes": 0}, "runner_memory_bytes"),
        ({"runner_user": ""}, "runner_user"),
        ({"runner_read_only": 1}, "runner_read_only"),
        ({"runner_read_only": True, "runner_writable": ("tmp",)}, "absolute paths"),
        ({"runner_writable": ("/tmp",)}, "goes with runner_read_only"),
        ({"runner_environment": "PATH"}, "runner_environment"),
        ({"tensorflow_port": 70000, "credentials": "keys"}, "from 0"),
        ({"tensorflow_port": 0}, "goes with credentials"),
        ({"tensorflow_host": "0.0.0.0", "credentials": "keys"}, "needs a tensorflow_port"),
        ({"dispatcher_address": "grpcs://h:1"}, "PENSTOCK_CREDENTIALS"),
        ({"dispatcher_address": "grpc://h:1", "credentials": "keys"}, "say grpcs://"),
    ],
)
def test_what_concerns_runners_and_tls_is_refused_with_the_remedy(given, words):
    with pytest.raises(ConfigError, match=words):
        WorkerConfig(**given)


def test_a_dispatcher_by_tls_is_known_by_its_plain_address():
    assert WorkerConfig("grpcs://h:1", credentials="keys").dispatcher_address == "h:1"
