"""What a process shows to whom."""

import pytest

from penstock.credentials import caller
from penstock.credentials.caller import AGAIN, LOCAL, LocalCaller, caller_of, caller_with, choose
from penstock.credentials.local import FILE, LocalKey
from penstock.errors import ConfigError
from tests.credentials.keyring import made


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture(autouse=True)
def no_choices(monkeypatch):
    monkeypatch.setattr(caller, "_chosen", {})


def test_a_proof_is_shown_on_loopback_alone(tmp_path):
    who = LocalCaller(lambda: tmp_path, lambda: 100.0)

    for host in ("127.0.0.1", "localhost", "::1"):
        assert LocalKey(tmp_path).identity(who.shown(host, 7000), 7000, 100.0)
    for host in ("10.0.0.1", "data.example", "", "127.0.0.1.example"):
        assert who.shown(host, 7000) == ""
    assert who.tls is None


def test_a_key_that_was_replaced_is_used_a_moment_later(tmp_path):
    now = [100.0]
    who = LocalCaller(lambda: tmp_path, lambda: now[0])
    who.shown("localhost", 1)
    (tmp_path / FILE).unlink()
    key = LocalKey(tmp_path)
    now[0] += AGAIN

    assert key.identity(who.shown("localhost", 1), 1, now[0])


def test_where_no_key_can_be_had_nothing_is_shown(tmp_path):
    LocalKey(tmp_path)
    (tmp_path / FILE).chmod(0o644)

    assert LocalCaller(lambda: tmp_path).shown("localhost", 1) == ""


def test_a_folder_s_token_is_shown_to_what_its_ca_certified(keys):
    who = caller_with(str(keys / "reader"))

    assert who.shown("anywhere", 1).startswith("penstock1.")
    assert b"BEGIN CERTIFICATE" in who.tls.ca
    assert caller_with(str(keys / "reader")) is who


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no folder"):
        caller_with(str(tmp_path / "no"))


def test_what_was_chosen_for_an_address_goes_before_the_variable(keys):
    env = {"PENSTOCK_CREDENTIALS": str(keys / "reader")}
    choose("a:1", str(keys / "trainer"))
    choose("b:1", "")

    assert caller_of("a:1", env) is caller_with(str(keys / "trainer"))
    assert caller_of("b:1", env) is LOCAL
    assert caller_of("c:1", env) is caller_with(str(keys / "reader"))
    assert caller_of("c:1", {}) is LOCAL


def test_a_folder_with_one_for_each_role_stands_for_the_role_s(keys):
    env = {"PENSTOCK_CREDENTIALS": str(keys)}

    assert caller_of("a:1", env) is caller_with(str(keys / "trainer"))
    assert caller_of("a:1", env, role="operator") is caller_with(str(keys / "operator"))
