"""Connections that this process accepted are found by the kernel's own list of its files."""

import fcntl
import os
import socket
import struct
from types import SimpleNamespace

import pytest

from penstock.runtime import descriptors as module
from penstock.runtime.descriptors import AcceptedConnections, open_files


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


def test_those_that_were_known_are_older_than_new_ones_whatever_their_inodes(
    server, made, monkeypatch
):
    def falling(number, fstat=os.fstat):
        return SimpleNamespace(st_mode=fstat(number).st_mode, st_ino=10_000 - number)

    monkeypatch.setattr(module, "os", SimpleNamespace(fstat=falling))
    accepted, origins = AcceptedConnections(server.getsockname()[1]), []
    for _ in range(3):
        origins.append(made()[1].getsockname())
        assert accepted.look() == origins


@pytest.fixture
def locked(tmp_path):
    """Yield a file that this process has locked, as databases do; it must stay so."""
    with (tmp_path / "file").open("wb") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield file.fileno()
        with (tmp_path / "file").open("wb") as other, pytest.raises(BlockingIOError):
            whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(other, fcntl.F_OFD_SETLK, whole)


def test_a_number_that_is_a_file_by_now_is_left_alone_and_stays_locked(server, made, locked):
    near, far = made()
    accepted = AcceptedConnections(server.getsockname()[1])
    accepted.look()
    number, origin = near.detach(), far.getsockname()
    before = open_files()
    os.dup2(locked, number)  # not closed: that would unlock it
    accepted.shut([origin])

    assert open_files() == before


def test_a_number_that_becomes_a_file_while_it_is_looked_at_is_not_kept(
    server, made, locked, monkeypatch
):
    near, _ = made()
    there = os.fstat(near.fileno())

    def before(number, fstat=os.fstat):
        return there if number == locked else fstat(number)

    monkeypatch.setattr(module.os, "fstat", before)
    count = open_files()
    AcceptedConnections(server.getsockname()[1]).look()

    assert open_files() == count


def test_a_number_that_becomes_a_file_while_it_is_shut_keeps_its_locks(
    server, made, locked, monkeypatch
):
    near, far = made()
    accepted = AcceptedConnections(server.getsockname()[1])
    accepted.look()
    number, copies = near.detach(), []

    def dup(of, real=os.dup):
        if of == number and not copies:
            os.dup2(locked, number)
        copies.append(real(of))
        return copies[-1]

    monkeypatch.setattr(module.os, "dup", dup)
    accepted.shut([far.getsockname()])

    assert len(copies) == 1
    assert os.fstat(copies[0]).st_ino == os.fstat(locked).st_ino


def test_open_files_are_counted():
    before = open_files()
    with socket.socket(), socket.socket():
        assert open_files() == before + 2
