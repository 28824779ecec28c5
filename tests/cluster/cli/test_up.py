"""What `penstock up` takes from variables, and that options go before these."""

import pytest

from penstock.errors import ConfigError
from penstock_cluster.cli.up import ignored, settings_of

VARIABLES = {
    "PENSTOCK_PORT": "7000",
    "PENSTOCK_HTTP_PORT": "8080",
    "PENSTOCK_HTTP_HOST": "127.0.0.2",
    "PENSTOCK_WORKER_TIMEOUT": "9",
    "PENSTOCK_SLOTS": "3",
    "PENSTOCK_DRAIN": "1.5",
}


def test_variables_are_honoured_and_options_go_before_them():
    dispatcher, worker = settings_of(VARIABLES, 2, None, fixed=False)
    given, fewer = settings_of(VARIABLES, 2, 1, fixed=True, port=0, http_port=9090)

    assert (dispatcher.port, dispatcher.http_host, dispatcher.http_port) == (
        7000,
        "127.0.0.2",
        8080,
    )
    assert (dispatcher.worker_timeout, worker.slots, worker.drain) == (9.0, 3, 1.5)
    assert (given.port, given.http_port, fewer.slots) == (0, 9090, 1)
    assert given.worker_addresses == ("127.0.0.1",) * 2


def test_workers_do_not_take_the_ports_and_addresses_of_the_dispatcher_or_of_each_other():
    env = VARIABLES | {"PENSTOCK_WORKER_ADDRESS": "a:1", "PENSTOCK_HEALTH_FILE": "/tmp/health"}
    _, worker = settings_of(env, 2, None, fixed=False)

    assert (worker.port, worker.http_port, worker.worker_address, worker.health_file) == (
        0, None, None, None,
    )  # fmt: skip


def test_a_variable_that_cannot_be_honoured_is_reported_and_one_that_cannot_be_read_refused():
    assert ignored(VARIABLES) == []
    (said,) = ignored({"PENSTOCK_WORKER_ADDRESS": "a:1"})
    assert said.startswith("PENSTOCK_WORKER_ADDRESS is ignored")
    with pytest.raises(ConfigError, match="PENSTOCK_HTTP_PORT"):
        settings_of({"PENSTOCK_HTTP_PORT": "many"}, 2, None, fixed=False)
