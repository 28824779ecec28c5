"""Whose connections there are, and which are too many."""

import pytest

from penstock.errors import Overloaded
from penstock.wire.connections import Connections, peer_named


def from_one(address, count, first=0):
    return [(address, first + port) for port in range(count)]


def looked(connections, peers):
    connections.begin()
    return connections.found(peers)


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:10.0.0.7:4242", ("10.0.0.7", 4242)),
        ("ipv6:%5B::1%5D:4242", ("::1", 4242)),
        ("ipv6:[fe80::1%25eth0]:80", ("fe80::1", 80)),
        ("ipv6:[::ffff:10.0.0.7]:80", ("10.0.0.7", 80)),
        ("unix:", ("unix:", 0)),
    ],
)
def test_a_peer_is_told_by_its_address_and_port(text, peer):
    assert peer_named(text) == peer


def test_of_those_that_show_nothing_the_oldest_are_closed_and_of_that_address_alone():
    connections = Connections(3)
    flood, other = from_one("6.6.6.6", 5), from_one("10.0.0.7", 3)

    assert looked(connections, [*flood, *other]) == {"6.6.6.6": flood[:2]}
    assert looked(connections, [*flood[2:], *other]) == {}


def test_one_that_showed_an_identity_is_not_closed_for_others_of_its_address():
    connections = Connections(2)
    connections.claim(("10.0.0.7", 1), "ann")

    strangers = from_one("10.0.0.7", 4, first=2)
    assert looked(connections, [("10.0.0.7", 1), *strangers]) == {"10.0.0.7": strangers[:2]}


def test_an_identity_has_no_more_than_it_may_by_the_name_of_the_bound_from_wherever_it_comes():
    connections = Connections(2)
    connections.claim(("a", 1), "ann")
    connections.claim(("b", 1), "ann")
    connections.claim(("b", 1), "ann")

    with pytest.raises(Overloaded, match="ann has 2 connections.*max_connections_per_identity"):
        connections.claim(("c", 1), "ann")
    connections.claim(("c", 1), "bob")


def test_where_nobody_shows_an_identity_an_address_keeps_what_it_has_and_gets_no_more():
    connections = Connections(3)
    calling = from_one("10.0.0.7", 3)
    for peer in calling:
        connections.claim(peer, "10.0.0.7", proven=False)

    with pytest.raises(Overloaded, match="10.0.0.7 has 3 connections.*all that one address"):
        connections.claim(("10.0.0.7", 99), "10.0.0.7", proven=False)
    silent = from_one("10.0.0.7", 5, first=100)
    assert looked(connections, [*calling, *silent]) == {"10.0.0.7": silent[:2]}


def test_one_that_ended_makes_room_once_it_was_looked_for():
    connections = Connections(1)
    connections.claim(("a", 1), "ann")
    assert connections.due(files=1)
    looked(connections, [])

    connections.claim(("a", 2), "ann")


def test_one_that_was_claimed_while_others_were_looked_at_stays_claimed():
    connections = Connections(1)
    connections.begin()
    connections.claim(("a", 1), "ann")
    connections.found([])

    with pytest.raises(Overloaded):
        connections.claim(("a", 2), "ann")


def test_a_port_that_comes_back_with_another_identity_counts_for_that():
    connections = Connections(1)
    connections.claim(("a", 1), "ann")
    connections.claim(("a", 1), "bob")

    connections.claim(("b", 1), "ann")
    with pytest.raises(Overloaded, match="bob"):
        connections.claim(("c", 1), "bob")


def test_a_service_that_is_not_crowded_is_not_looked_at():
    connections = Connections(100)
    for port in range(50):
        connections.claim(("a", port), f"{port}")

    assert not connections.due(files=60)
    assert connections.due(files=101)  # one address may have them all
    assert connections.due(files=40)  # some that are known are gone


def test_one_address_gets_a_quarter_of_the_files_that_may_be_open():
    connections = Connections(4096, files=40)
    assert connections.due(files=11)

    flood = from_one("6.6.6.6", 30)
    assert looked(connections, flood) == {"6.6.6.6": flood[:20]}
