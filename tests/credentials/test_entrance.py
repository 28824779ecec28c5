"""Closed by default: how a service lets others in, and when it does not start."""

import pytest

from penstock.credentials.entrance import Security, entrance_of, security_of
from penstock.credentials.guard import LocalGuard, OpenGuard, TokenGuard
from penstock.errors import ConfigError, TamperedDefinition
from tests.credentials.keyring import made


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "data.example", "127.0.0.1.example"])
def test_what_others_can_reach_needs_credentials_or_says_that_it_is_insecure(host, keys):
    with pytest.raises(ConfigError, match="penstock keys init.*--insecure"):
        entrance_of(host, None, insecure=False)

    assert isinstance(entrance_of(host, None, insecure=True).guard, OpenGuard)
    assert isinstance(entrance_of(host, str(keys / "worker"), insecure=False).guard, TokenGuard)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_loopback_is_for_this_user_without_ceremony_and_credentials_count_there_too(host, keys):
    local = entrance_of(host, None, insecure=False)

    assert isinstance(local.guard, LocalGuard)
    assert local.folder is None
    assert isinstance(entrance_of(host, str(keys / "worker"), insecure=False).guard, TokenGuard)


def test_credentials_that_cannot_be_used_keep_a_service_from_starting(tmp_path, keys):
    with pytest.raises(ConfigError, match="no folder"):
        entrance_of("127.0.0.1", str(tmp_path / "no"), insecure=False)
    with pytest.raises(ConfigError, match="has no trusted.keys"):
        entrance_of("127.0.0.1", str(keys / "reader"), insecure=False)


def test_a_worker_knows_the_seals_of_its_dispatcher(keys):
    dispatcher = entrance_of("::", str(keys / "dispatcher"), insecure=False)
    worker = entrance_of("::", str(keys / "worker"), insecure=False)

    worker.check_seal("d", b"code", dispatcher.seal("d", b"code"))
    for definition, found in [(b"evil", dispatcher.seal("d", b"code")), (b"code", b"")]:
        with pytest.raises(TamperedDefinition):
            worker.check_seal("d", definition, found)


def test_without_credentials_there_are_no_seals():
    local = entrance_of("127.0.0.1", None, insecure=False)

    assert local.seal("d", b"code") == b""
    local.check_seal("d", b"code", b"")


def test_what_protects_a_service_is_said_in_words():
    assert security_of("folder", insecure=False) is Security.CREDENTIALS
    assert security_of(None, insecure=True) is Security.INSECURE
    assert security_of(None, insecure=False) is Security.LOCAL


def test_a_folder_with_one_for_each_role_stands_for_the_role_s(keys):
    found = entrance_of("::", str(keys), insecure=False, role="worker")

    assert found.folder.folder == keys / "worker"
