"""Connections that this process accepted are found by the kernel's own list of its files."""

import os
import socket

import pytest

from penstock.runtime.accepted import AcceptedConnections, open_files


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def made(server):
    """Yield a function that makes a connection: both ends, the accepted one first."""
    ends = []

    def make():
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
        ends.extend((near, far))
        return near, far

    yield make
    for end in ends:
        end.close()


def test_they_are_told_by_where_they_come_from_the_oldest_first(server, made):
    pairs = [made() for _ in range(5)]
    accepted = AcceptedConnections(server.getsockname()[1])

    assert accepted.look() == [far.getsockname() for _, far in pairs]
    pairs[2][0].close()
    assert accepted.look() == [far.getsockname() for i, (_, far) in enumerate(pairs) if i != 2]


def test_those_of_other_ports_are_not_among_them(made):
    made()
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert AcceptedConnections(other.getsockname()[1]).look() == []


def test_one_that_is_shut_ends_at_both_sides_and_its_file_stays_its_owners(server, made):
    (near, far), (kept_near, kept_far) = made(), made()
    accepted = AcceptedConnections(server.getsockname()[1])
    accepted.look()
    accepted.shut([far.getsockname()])

    assert far.recv(1) == near.recv(1) == b""
    assert os.fstat(near.fileno())
    kept_near.sendall(b"x")
    assert kept_far.recv(1) == b"x"


def test_a_number_that_is_another_files_by_now_is_left_alone(server, made):
    near, far = made()
    accepted = AcceptedConnections(server.getsockname()[1])
    accepted.look()
    number, origin = near.fileno(), far.getsockname()
    other_near, other_far = made()
    os.dup2(other_near.fileno(), number)  # as if it was closed, and another opened
    accepted.shut([origin])

    other_near.sendall(b"x")
    assert other_far.recv(1) == b"x"


def test_open_files_are_counted():
    before = open_files()
    with socket.socket(), socket.socket():
        assert open_files() == before + 2
