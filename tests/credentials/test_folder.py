"""Folders of credentials: what is missing or open is refused, what changes is followed."""

import logging
import os

import pytest

from penstock.credentials.folder import (
    LOOK,
    ClientCredentials,
    WatchedFolder,
    load_client,
    load_service,
)
from penstock.errors import ConfigError
from tests.credentials.keyring import made


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture
def copy(keys, tmp_path):
    """Return a copy of the worker's folder."""
    for file in (keys / "worker").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / file.name).chmod(file.stat().st_mode & 0o777)
    return tmp_path


def test_a_folder_that_is_not_there_or_of_another_kind_says_what_is_missing(keys, tmp_path):
    with pytest.raises(ConfigError, match="keys init"):
        load_client(tmp_path / "no")
    with pytest.raises(ConfigError, match="ca.crt, token, tls.crt, tls.key"):
        load_client(keys)
    with pytest.raises(ConfigError, match="no trusted.keys, definitions.key"):
        load_service(keys / "reader")


@pytest.mark.parametrize("name", ["token", "tls.key", "definitions.key"])
def test_a_secret_that_others_can_read_is_refused(copy, name):
    (copy / name).chmod(0o644)

    with pytest.raises(ConfigError, match=f"{name}.*can be read or changed by others"):
        load_service(copy)


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("ca.crt", b"x", "no certificate"),
        ("tls.crt", b"x", "no certificate"),
        ("tls.key", b"x", "cannot be read"),
        ("trusted.keys", b"x", "no public key"),
        ("definitions.key", b"x", "no key"),
    ],
)
def test_a_file_that_holds_something_else_is_named(copy, name, content, words):
    (copy / name).write_bytes(content)

    with pytest.raises(ConfigError, match=words):
        load_service(copy)


def test_a_key_that_is_not_the_certificates_is_found(keys, copy):
    (copy / "tls.key").write_bytes((keys / "dispatcher" / "tls.key").read_bytes())

    with pytest.raises(ConfigError, match="not the key of tls.crt"):
        load_service(copy)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def step(self):
        self.now += LOOK


def replace(file, content):
    """Put another file in the place of *file*, as `penstock keys` does."""
    new = file.with_name("new")
    new.write_bytes(content)
    new.chmod(0o600)
    os.replace(new, file)


def test_a_file_that_is_replaced_is_in_use_a_second_later(copy):
    clock = Clock()
    folder = WatchedFolder(copy, load_client, clock)
    before = folder.current()
    replace(copy / "token", b"another\n")

    assert folder.current() is before
    clock.step()
    assert folder.current() == ClientCredentials(before.tls, "another")


def test_a_key_that_others_can_read_all_at_once_is_told_of_once(copy, caplog):
    clock = Clock()
    folder = WatchedFolder(copy, load_service, clock)
    before = folder.current()
    (copy / "tls.key").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.step()
            assert folder.current() is before

    assert len(caplog.records) == 1
    assert f"{copy / 'tls.key'} can be read or changed by others (mode 0644)" in caplog.text


def test_what_is_half_replaced_is_waited_out_and_logged_once(keys, copy, caplog):
    clock = Clock()
    folder = WatchedFolder(copy, load_service, clock)
    before = folder.current()
    other = keys / "dispatcher"
    replace(copy / "tls.key", (other / "tls.key").read_bytes())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.step()
            assert folder.current() is before
    assert len(caplog.records) == 1
    assert "going on with the credentials from before" in caplog.text

    replace(copy / "tls.crt", (other / "tls.crt").read_bytes())
    clock.step()
    assert folder.current().client.tls.certificate == (other / "tls.crt").read_bytes()
