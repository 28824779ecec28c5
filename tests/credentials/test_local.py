"""Processes of one user know each other; those of another one do not."""

import os
import time

import pytest

from penstock.credentials.access import EVERY_ROLE
from penstock.credentials.local import FILE, LASTS, LocalKey, is_loopback, user_folder
from penstock.errors import ConfigError, Unauthenticated


@pytest.fixture
def key(tmp_path):
    return LocalKey(tmp_path)


def test_a_process_of_the_same_user_may_do_everything(key, tmp_path):
    another_process = LocalKey(tmp_path)

    identity = key.identity(another_process.proof(7000, 100.0), 7000, 101.0)

    assert identity.roles == EVERY_ROLE


def test_the_key_is_for_its_user_alone(key, tmp_path):
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_proof_is_for_one_port_and_some_minutes(key):
    proof = key.proof(7000, 100.0)

    for port, now in [(7001, 100.0), (7000, 100.0 + LASTS + 1), (7000, 100.0 - 2 * LASTS)]:
        with pytest.raises(Unauthenticated, match=f"user {os.getuid()}"):
            key.identity(proof, port, now)


@pytest.mark.parametrize(
    "proof", ["", "local1", "local1.x.y", "local1." + "9" * 5000, "local1.é.ü"]
)
def test_what_is_no_proof_is_refused(key, proof):
    with pytest.raises(Unauthenticated):
        key.identity(proof, 7000, 100.0)


def test_a_user_with_another_key_is_refused(key, tmp_path):
    (tmp_path / "other").mkdir()

    with pytest.raises(Unauthenticated):
        key.identity(LocalKey(tmp_path / "other").proof(7000, 100.0), 7000, 100.0)


def test_a_key_that_was_tidied_away_comes_back(key, tmp_path):
    (tmp_path / FILE).unlink()

    key.keep()

    assert LocalKey(tmp_path).proof(1, 0.0) == key.proof(1, 0.0)


def test_a_key_that_another_process_made_meanwhile_is_taken(key, tmp_path):
    (tmp_path / FILE).unlink()
    other = LocalKey(tmp_path)

    key.keep()

    assert key.proof(1, 0.0) == other.proof(1, 0.0)


def test_a_key_that_others_can_read_or_that_is_none_is_refused(key, tmp_path):
    (tmp_path / FILE).chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        LocalKey(tmp_path)
    (tmp_path / FILE).chmod(0o600)
    (tmp_path / FILE).write_bytes(b"short")
    with pytest.raises(ConfigError, match="holds no key"):
        LocalKey(tmp_path)


def test_secrets_for_two_purposes_differ(key):
    assert key.secret("a") == key.secret("a") != key.secret("b")


def test_the_users_folder_is_the_same_for_every_job(monkeypatch, tmp_path):
    before = user_folder()
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    assert user_folder() == before
    assert before.stat().st_uid == os.getuid()
    assert LocalKey(before).proof(1, time.time())


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("[::1]", True), ("localhost", True), ("10.0.0.1", False), ("a", False)],
)
def test_what_is_this_machine_alone(host, loopback):
    assert is_loopback(host) is loopback
