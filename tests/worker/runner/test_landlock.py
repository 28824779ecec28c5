"""What the kernel keeps runners from, tried by users' functions in real runners."""

import os
from pathlib import Path

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError
from penstock_worker.runner import landlock
from penstock_worker.runner.confinement import Confinement
from penstock_worker.runner.landlock import FileRules
from penstock_worker.runner.messages import RunFailed

pytestmark = pytest.mark.skipif(
    landlock.version() < landlock.LEAST, reason="this kernel has no Landlock"
)


@pytest.fixture
def place(tmp_path):
    """Return a folder with credentials in it, and data beside them."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "tls.key").write_text("secret")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("rows")
    return tmp_path


async def outcomes(working, rules, tried):
    """Return what came of each of *tried* in a runner: a value, or an error's name."""

    def one_by_one(number):
        try:
            return str(tried[int(number)]())
        except OSError as exc:
            return type(exc).__name__

    dataset = Dataset.range(len(tried)).map(one_by_one)
    async with working(confinement=Confinement(files=rules)) as workplace:
        return [str(text) for text in (await workplace.read(dataset)).elements]


async def test_what_is_hidden_can_be_neither_read_nor_changed_nor_moved_and_the_rest_can(
    working, place
):
    key, data = place / "keys" / "tls.key", place / "data"
    tried = [
        key.read_text,
        lambda: key.write_text("mine"),
        key.unlink,
        lambda: key.rename(data / "key"),
        lambda: os.link(key, data / "key"),
        lambda: key.parent.rename(place / "others"),
        lambda: (key.parent / "trusted.keys").write_text("mine"),
        lambda: (place / "keys2").mkdir(),
        lambda: os.symlink(key, data / "link"),
        (data / "link").read_text,
        Path(f"/proc/self/root{key}").read_text,
        (data / "rows").read_text,
        lambda: (data / "new").write_text("x"),
        (data / "new").read_text,
    ]
    found = await outcomes(working, FileRules((str(place / "keys"),)), tried)

    refused, crossing = "PermissionError", "OSError"
    assert found[:4] == [refused] * 4
    assert found[4] in {refused, crossing}
    assert found[5:8] == [refused] * 3
    assert found[8:] == ["None", refused, refused, "rows", "1", "x"]
    assert key.read_text() == "secret"


async def test_a_runner_looks_into_no_process_outside_and_signals_none(working, place):
    worker = os.getpid()
    tried = [
        lambda: Path(f"/proc/{worker}/mem").open("rb").close(),
        lambda: os.kill(worker, 0) if landlock.version() >= 6 else os.open("/none", 0),
        lambda: os.kill(os.getpid(), 0),
    ]
    found = await outcomes(working, FileRules((str(place / "keys"),)), tried)

    assert found[0] == "PermissionError"
    assert found[1] in {"PermissionError", "FileNotFoundError"}
    assert found[2] == "None"


async def test_of_a_read_only_system_the_named_paths_alone_can_be_changed(working, place):
    rows, out = place / "data" / "rows", place / "out"
    out.mkdir()
    tried = [
        rows.read_text,
        lambda: rows.write_text("x"),
        lambda: os.truncate(rows, 0),
        rows.unlink,
        lambda: (out / "new").write_text("x"),
        (out / "new").unlink,
        lambda: Path("/dev/null").write_text("x"),
    ]
    found = await outcomes(working, FileRules((), True, (str(out),)), tried)

    assert found == ["rows", *["PermissionError"] * 3, "1", "None", "1"]
    assert rows.read_text() == "rows"


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_function_that_is_kept_from_a_file_is_told_why(working, place, read_only):
    hidden = () if read_only else (str(place / "keys"),)
    dataset = Dataset.range(1).map(lambda _: (place / "new").touch())

    rules = FileRules(hidden, read_only)
    async with working(confinement=Confinement(files=rules)) as workplace:
        failed = (await (await workplace.begin(dataset)).end()).reports[-1]

    assert isinstance(failed, RunFailed)
    wanted = "runner_writable" if read_only else "may not touch its credentials"
    assert wanted in str(failed.failure.error())


def test_rules_that_cannot_be_kept_are_refused_at_the_start(place, monkeypatch):
    keys = str(place / "keys")
    with pytest.raises(ConfigError, match="is not there"):
        landlock.check(FileRules((), True, ("/no/such",)))
    for path in (keys, str(place)):
        with pytest.raises(ConfigError, match="one below the other"):
            landlock.check(FileRules((keys,), True, (path,)))
    monkeypatch.setattr(landlock, "MOST", 3)
    with pytest.raises(ConfigError, match="a folder of their own"):
        landlock.check(FileRules((keys,)))
    monkeypatch.setattr(landlock, "version", lambda: 0)
    with pytest.raises(ConfigError, match=r"Linux 6\.2"):
        landlock.check(FileRules((), True))
