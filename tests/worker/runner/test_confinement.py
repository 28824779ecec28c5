"""What runners may do less than their worker."""

import os
import pwd
from pathlib import Path

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError
from penstock_worker.runner import confinement, cover, landlock
from penstock_worker.runner.confinement import USUAL, Confinement, confinement_of
from penstock_worker.runner.messages import RunFailed

MIB = 1 << 20

needs_landlock = pytest.mark.skipif(
    landlock.version() < landlock.LEAST, reason="this kernel has no Landlock"
)


def status(field):
    def read(_):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith(field))

    return read


def test_the_folder_of_credentials_is_told_to_no_runner():
    given = {b"PENSTOCK_CREDENTIALS": b"/keys", b"A": b"1"}

    for one in (Confinement(), Confinement(variables=("*",))):
        assert one.passed_on(given) == {b"A": b"1"}


def test_with_credentials_the_usual_variables_are_passed_on_and_those_that_are_named():
    given = {b"PATH": b"p", b"LC_ALL": b"C", b"AWS_SESSION_TOKEN": b"s", b"DATA_AT": b"/d"}
    stores = {b"PATH", b"LC_ALL", b"AWS_SESSION_TOKEN"}

    usual = confinement_of(None, None, None, credentials="/tmp")
    assert usual.passed_on(given).keys() == stores
    named = confinement_of(None, None, (*USUAL, "DATA_*"), credentials="/tmp")
    assert named.passed_on(given).keys() == {*stores, b"DATA_AT"}
    assert confinement_of(None, None, None, credentials=None).passed_on(given) == given


async def test_a_function_sees_only_the_variables_that_are_passed_on(working, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CREDENTIALS", "/keys")
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "s")
    monkeypatch.setenv("DATA_AT", "/d")
    names = ["PENSTOCK_CREDENTIALS", "SECRET_OF_THE_WORKER", "DATA_AT"]
    dataset = Dataset.range(1).map(lambda _: tuple(str(os.environ.get(name)) for name in names))

    async with working(confinement=Confinement(variables=(*USUAL, "DATA_*"))) as workplace:
        (seen,) = (await workplace.read(dataset)).elements

    assert [str(value) for value in seen] == ["None", "None", "/d"]


async def test_a_runner_is_nicer_than_its_worker_by_as_much_as_it_is_told(working):
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    dataset = Dataset.range(1).map(lambda _: os.getpriority(os.PRIO_PROCESS, 0))

    for niceness in (0, 3):
        told = confinement_of(None, None, None, credentials=None, niceness=niceness)
        async with working(confinement=told) as workplace:
            (its,) = (await workplace.read(dataset)).elements
        assert its == min(19, ours + niceness)


async def test_a_runner_gets_no_new_privileges(working):
    async with working() as workplace:
        (seen,) = (await workplace.read(Dataset.range(1).map(status("NoNewPrivs")))).elements

    assert str(seen) == "1"


async def test_a_function_that_wants_more_memory_than_its_runner_may_have_is_told_the_bound(
    working,
):
    dataset = Dataset.range(1).map(lambda _: np.ones(512 * MIB, np.uint8)[:1])

    async with working(confinement=Confinement(memory=256 * MIB)) as workplace:
        failed = (await (await workplace.begin(dataset)).end()).reports[-1]

    assert isinstance(failed, RunFailed)
    text = str(failed.failure.error())
    assert str(256 * MIB) in text
    assert "runner_memory_bytes" in text


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_a_runner_of_another_user_cannot_read_what_is_the_workers(working, tmp_path):
    key = tmp_path / "tls.key"
    key.write_text("secret")
    key.chmod(0o600)

    def read(_):
        try:
            return f"{os.getuid()} {key.read_text()}"
        except PermissionError:
            return f"{os.getuid()} refused"

    nobody = confinement_of(None, "nobody", None, credentials="/tmp")
    async with working(confinement=nobody) as workplace:
        (seen,) = (await workplace.read(Dataset.range(1).map(read))).elements

    assert str(seen) == f"{pwd.getpwnam('nobody').pw_uid} refused"


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Return a folder of credentials, where nobody else makes files."""
    monkeypatch.setattr(confinement, "_is_everybodys", lambda _: False)
    (tmp_path / "keys" / "worker").mkdir(parents=True)
    return tmp_path / "keys"


def hidden(folder, user=None):
    made = confinement_of(None, user, None, credentials=str(folder))
    return made.files.hidden


@needs_landlock
def test_credentials_are_hidden_from_runners_of_the_same_user(keys):
    assert hidden(keys / "worker") == (str(keys / "worker"),)
    (keys / "authority").mkdir()
    assert hidden(keys / "worker") == (str(keys),)  # those of all roles are in it


@needs_landlock
def test_credentials_whose_modes_a_function_can_change_are_warned_of(keys, monkeypatch, caplog):
    for possible in (True, False):
        monkeypatch.setattr(cover, "possible", lambda _, it=possible: it)
        made = confinement_of(None, None, None, credentials=str(keys / "worker"))
        assert made.files.covered is possible
        assert ("change the modes" in caplog.text) is not possible
    assert "--runner-user" in caplog.text


@needs_landlock
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_from_another_user_files_are_kept_by_their_modes(keys):
    assert hidden(keys / "worker", "nobody") == ()


def test_credentials_that_cannot_be_hidden_are_warned_of(keys, monkeypatch, caplog):
    monkeypatch.setattr(confinement, "_is_everybodys", lambda one: one.name == "tmp")
    assert hidden(keys / "worker") == ()
    assert "everybody's" in caplog.text
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert hidden(keys / "worker") == ()
    assert "no Landlock" in caplog.text
    assert "--runner-user" in caplog.text


def test_a_user_that_is_unknown_or_cannot_be_become_is_refused(monkeypatch):
    with pytest.raises(ConfigError, match="no such user"):
        confinement_of(None, "no such user", None, credentials=None)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ConfigError, match="only a worker that root started"):
        confinement_of(None, "root", None, credentials=None)


def test_a_user_that_the_worker_is_already_changes_nothing():
    own = pwd.getpwuid(os.getuid()).pw_name

    assert confinement_of(None, own, None, credentials=None) == Confinement()
