"""What a process finds wrong with its own certificate."""

from datetime import timedelta

import pytest

from penstock.credentials import authority
from penstock.credentials.access import AccessRole
from penstock.credentials.caller import trouble
from penstock.credentials.folder import Tls, load_client
from tests.credentials.keyring import NOW, made


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys", now=NOW)


@pytest.fixture
def tls(keys):
    return load_client(keys / "trainer").tls


def at(days):
    return (NOW + timedelta(days=days)).timestamp()


def test_in_a_good_one_there_is_nothing(tls):
    assert trouble(tls, at(0)) == trouble(tls, at(364)) == ""


def test_out_of_its_time_both_clocks_are_named(tls):
    assert "expired 2027-05-01 12:00:00 UTC" in trouble(tls, at(366))
    assert "2027-05-02 12:00:00" in trouble(tls, at(366))
    assert "good from 2026-05-01 11:55:00 UTC" in trouble(tls, at(-1))


def test_of_another_ca_it_says_that_none_of_its_own_made_it(tls, tmp_path):
    other = load_client(made(tmp_path / "other", now=NOW) / "trainer").tls

    assert "none of the CAs" in trouble(Tls(other.ca, tls.key, tls.certificate), at(0))


def test_of_two_cas_the_second_will_do(keys, tls, tmp_path):
    other = load_client(made(tmp_path / "other", now=NOW) / "trainer").tls

    assert trouble(Tls(other.ca + tls.ca, tls.key, tls.certificate), at(0)) == ""


def test_a_key_of_another_or_none_at_all_is_said(keys, tls):
    other = load_client(keys / "reader").tls

    assert "not the key of tls.crt" in trouble(Tls(tls.ca, other.key, tls.certificate), at(0))
    assert "cannot be read" in trouble(Tls(tls.ca, b"x", tls.certificate), at(0))


def test_a_personal_one_ends_when_it_was_said_to(keys, tmp_path):
    authority.personal(keys, tmp_path / "ann", AccessRole.READER, "ann", NOW, 3600.0)
    mine = load_client(tmp_path / "ann").tls

    assert trouble(mine, at(1 / 25)) == ""
    assert "expired" in trouble(mine, at(1))
