"""``penstock keys``: what it makes, and what it says."""

import time

import pytest
from typer.testing import CliRunner

from penstock.credentials.access import AccessRole
from penstock.credentials.folder import load_client, load_service
from penstock.credentials.token import TrustedKeys
from penstock_cluster.cli.app import app


def keys(*words):
    return CliRunner().invoke(app, ["keys", *map(str, words)])


@pytest.fixture
def folder(tmp_path):
    made = keys("init", tmp_path / "keys", "--host", "data.example")
    assert made.exit_code == 0, made.output
    return tmp_path / "keys"


def test_init_makes_a_folder_for_each_role_and_says_so(folder):
    again = keys("init", folder)

    assert load_service(folder / "dispatcher").client.token
    assert load_client(folder / "reader").token
    assert again.exit_code == 2
    assert "keys renew" in again.output


def test_token_prints_a_token_that_the_services_trust_for_as_long_as_was_said(folder):
    made = keys("token", folder, "--role", "trainer", "--expires", "12h", "--name", "ann")

    trusted = TrustedKeys.from_pem(load_service(folder / "worker").trusted)
    identity = trusted.identity(made.output.strip(), time.time())
    assert identity.roles == {AccessRole.TRAINER}
    assert identity.name == "trainer 'ann'"
    assert 12 * 3600 - 60 < identity.expires - time.time() <= 12 * 3600


def test_token_makes_a_folder_too_where_it_is_told_one(folder, tmp_path):
    made = keys("token", folder, "--role", "trainer", "--name", "ann", "--into", tmp_path / "ann")

    assert made.exit_code == 0, made.output
    assert "of a trainer" in made.output
    assert load_client(tmp_path / "ann").tls.certificate


@pytest.mark.parametrize(
    "words, said",
    [(["--role", "king"], "'trainer'"), (["--role", "reader", "--expires", "1y"], "30d")],
)
def test_a_role_or_a_time_that_is_unknown_is_refused_with_those_there_are(folder, words, said):
    refused = keys("token", folder, *words)

    assert refused.exit_code == 2
    assert said in refused.output


def test_renew_and_rotate_say_what_is_in_use(folder):
    assert keys("renew", folder, "--host", "other.example").exit_code == 0
    assert "do this again" in keys("rotate", folder).output
    assert "are in use" in keys("rotate", folder).output
