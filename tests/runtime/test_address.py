"""Addresses: what is one, and the one that others are told."""

import socket

import pytest

from penstock.runtime import address


@pytest.mark.parametrize("text", ["h:1", "h:65535", "127.0.0.1:80", "[::1]:5050", "a.example:7"])
def test_a_host_and_a_port_are_an_address(text):
    assert address.is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "h:",
        ":1",
        "h:0",
        "h:65536",
        "h:-1",
        "h:x",
        "h/x:1",
        "h x:1",
        "::1:7",
        "[::1:7",
        "h]:7",
        "[]:7",
        5,
        None,
    ],
)
def test_anything_else_is_none(text):
    assert not address.is_address(text)


@pytest.mark.parametrize(
    ("host", "text"), [("h", "h:7"), ("127.0.0.1", "127.0.0.1:7"), ("::1", "[::1]:7")]
)
def test_a_host_with_colons_is_put_in_brackets_and_comes_out_of_them(host, text):
    assert address.join(host, 7) == text
    assert address.split(text) == (host, 7)


def test_what_has_no_port_cannot_be_split():
    with pytest.raises(ValueError, match="invalid literal"):
        address.split("h")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_who_listens_on_all_interfaces_is_reached_by_the_name_of_the_machine(host):
    assert address.advertised(host, 7) == f"{socket.gethostname()}:7"
    assert address.advertised("::1", 7) == "[::1]:7"


@pytest.mark.parametrize(
    ("text", "here"),
    [("127.0.0.1", True), ("192.0.2.7", False), ("2001:db8::7", False), ("", False), ("x", False)],
)
def test_an_address_is_of_this_host_or_of_another(text, here):
    assert address.is_of_this_host(text) is here
