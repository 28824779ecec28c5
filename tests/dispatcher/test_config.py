import math
from dataclasses import fields, replace

import pytest

from penstock.errors import ConfigError
from penstock.runtime import settings
from penstock_dispatcher.config import DispatcherConfig
from tests.credentials.keyring import made


def test_names_and_places_are_those_of_the_reference():
    placed = [field.name for field in fields(DispatcherConfig) if not field.kw_only]

    assert placed == [
        "port",
        "protocol",
        "work_dir",
        "fault_tolerant_mode",
        "worker_addresses",
        "job_gc_check_interval",
        "job_gc_timeout",
        "worker_timeout",
    ]


def test_defaults_keep_to_this_machine():
    config = DispatcherConfig()

    assert (config.host, config.port) == ("127.0.0.1", 0)
    assert (config.worker_timeout, config.client_timeout, config.job_gc_timeout) == (5, 30, 300)
    assert config.heartbeat_interval == 1


@pytest.mark.parametrize(
    "name, value",
    [
        ("port", -1),
        ("port", 70000),
        ("port", "1"),
        ("port", True),
        ("host", ""),
        ("host", None),
        ("protocol", "https"),
        ("work_dir", ""),
        ("work_dir", 3),
        ("worker_addresses", "one:1"),
        ("worker_addresses", ("",)),
        ("reassign_static_tasks", 1),
        ("worker_timeout", 0),
        ("worker_timeout", -1.0),
        ("worker_timeout", math.nan),
        ("worker_timeout", math.inf),
        ("client_timeout", "5"),
        ("job_gc_timeout", -1),
        ("dataset_gc_timeout", 0),
        ("gc_dynamic_sharding_jobs", "no"),
        ("job_gc_check_interval", 0),
        ("heartbeat_interval", True),
    ],
)
def test_a_bad_value_is_named_with_its_field(name, value):
    with pytest.raises(ConfigError, match=name) as caught:
        DispatcherConfig(**{name: value})

    assert str(value) in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_lease_shorter_than_two_beats_is_refused():
    with pytest.raises(ConfigError, match=r"worker_timeout=1 .*heartbeat_interval=1"):
        DispatcherConfig(worker_timeout=1.0)
    with pytest.raises(ConfigError, match=r"client_timeout=1.5 .*heartbeat_interval=1"):
        DispatcherConfig(client_timeout=1.5)


def test_fault_tolerance_needs_a_work_dir_and_is_on_with_it():
    with pytest.raises(ConfigError, match="work_dir"):
        DispatcherConfig(fault_tolerant_mode=True)
    assert DispatcherConfig(fault_tolerant_mode=True, work_dir="there").work_dir == "there"


def test_a_worker_has_one_place_in_the_list():
    with pytest.raises(ConfigError, match="worker_addresses names a:1 twice"):
        DispatcherConfig(worker_addresses=("a:1", "b", "b", "a:1"))


def test_power_failures_are_outlasted_on_demand():
    assert not DispatcherConfig().outlasts_power
    assert DispatcherConfig(durability="power").outlasts_power
    with pytest.raises(ConfigError, match="durability must be one of process, power, not 'disk'"):
        DispatcherConfig(durability="disk")


def test_the_environment_says_the_same_both_ways():
    config = DispatcherConfig(
        port=5050,
        work_dir="there",
        worker_addresses=["a:1", "b", "b:*"],
        reassign_static_tasks=True,
        job_gc_timeout=math.inf,
        dataset_gc_timeout=math.inf,
        host="0.0.0.0",
        worker_timeout=9,
    )

    assert DispatcherConfig.from_env(settings.to_env(config)) == config
    assert DispatcherConfig.from_env({}) == DispatcherConfig()


def test_flags_go_before_the_environment():
    config = DispatcherConfig.from_env({"PENSTOCK_PORT": "1", "PENSTOCK_HOST": "h"}, port=2)

    assert (config.port, config.host) == (2, "h")


def test_a_variable_that_cannot_be_read_is_named():
    with pytest.raises(ConfigError, match="PENSTOCK_WORKER_TIMEOUT='soon'"):
        DispatcherConfig.from_env({"PENSTOCK_WORKER_TIMEOUT": "soon"})


def test_ticks_are_short_against_the_shortest_lease():
    config = DispatcherConfig(worker_timeout=0.4, heartbeat_interval=0.1)

    assert config.settings.tick_interval == pytest.approx(0.05)


def test_the_lease_of_consumers_is_no_longer_than_that_of_readers():
    assert DispatcherConfig().settings.consumer_lease == 10
    assert DispatcherConfig(client_timeout=4.0).settings.consumer_lease == 4
    assert DispatcherConfig(consumer_timeout=2.0).settings.tick_interval == pytest.approx(0.25)
    with pytest.raises(ConfigError, match=r"consumer_timeout=1 must be at least twice"):
        DispatcherConfig(consumer_timeout=1.0)


def test_bounds_and_credentials_reach_the_entrance_and_contradictions_are_refused():
    entrance = DispatcherConfig(limits={"max_calls": 7, "max_calls_per_identity": 5}).entrance()

    assert (entrance.limits["max_calls"], entrance.limits["max_calls_per_identity"]) == (7, 5)
    with pytest.raises(ConfigError, match="contradict"):
        DispatcherConfig(credentials="keys", insecure=True)
    with pytest.raises(ConfigError, match="folder's path"):
        DispatcherConfig(credentials=5)
    with pytest.raises(ConfigError, match="True or False"):
        DispatcherConfig(insecure="yes")


def test_with_a_port_for_tensorflow_two_share_the_files_that_the_process_may_have_open(tmp_path):
    keys = str(made(tmp_path / "keys") / "dispatcher")
    config = DispatcherConfig(credentials=keys)
    opened = replace(config, tensorflow_port=0, tensorflow_datasets=("train",)).entrance()

    assert config.entrance().ports == 1
    assert (opened.ports, opened.for_tensorflow().ports) == (2, 2)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"tensorflow_port": 0}, "go together"),
        ({"tensorflow_datasets": ("train",)}, "go together"),
        ({"tensorflow_port": 0, "tensorflow_datasets": "train"}, "tuple of ids"),
        ({"tensorflow_port": True, "tensorflow_datasets": ("train",)}, "from 0"),
        ({"tensorflow_port": 1, "tensorflow_host": ""}, "interface"),
    ],
)
def test_what_is_opened_to_tensorflows_clients_is_named_and_has_a_port(given, words):
    with pytest.raises(ConfigError, match=words):
        DispatcherConfig(credentials="keys", **given)
