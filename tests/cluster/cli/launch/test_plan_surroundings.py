"""Where this host is, seen from its dispatcher."""

import socket

import pytest

from penstock_cluster.cli.launch.plan import Surroundings, look_around


@pytest.fixture
def listening():
    """The port of something that listens on this host."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_on_loopback_a_port_is_free_or_taken(listening, free):
    assert look_around(f"127.0.0.1:{listening}") == Surroundings("127.0.0.1", True, True)
    assert look_around(f"localhost:{free}") == Surroundings("127.0.0.1", True, False)
    assert look_around("127.0.0.1:0") == Surroundings("127.0.0.1", True, False)


def test_an_address_of_documentation_is_not_here():
    found = look_around("192.0.2.7:7000")  # RFC 5737: no host has it

    assert (found.here, found.taken) == (False, False)
    assert found.own_host


def test_a_name_that_nobody_knows_is_not_here():
    found = look_around("no-such-host.invalid:7000")  # RFC 2606

    assert (found.here, found.taken) == (False, False)
    assert found.own_host
