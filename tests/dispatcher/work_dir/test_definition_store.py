import errno
import os

import pytest

from penstock.errors import ConfigError, DefinitionError, Overloaded, Refused, StoreFull
from penstock_dispatcher.work_dir.definition_store import KEPT, FileDefinitions, MemoryDefinitions


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "folder", "power"])
def definitions(request, tmp_path, clock):
    if request.param == "memory":
        return MemoryDefinitions(clock)
    return FileDefinitions(tmp_path / "datasets", power=request.param == "power", clock=clock)


async def test_the_first_definition_of_a_fingerprint_stays(definitions):
    await definitions.keep("abc", b"first")
    await definitions.keep("abc", b"second")

    assert await definitions.find("abc") == b"first"
    assert await definitions.find("other") is None


async def test_a_fingerprint_is_no_way_out_of_the_folder(tmp_path):
    definitions = FileDefinitions(tmp_path / "datasets")
    (tmp_path / "secret").write_text("x")

    assert await definitions.find("../secret") is None
    with pytest.raises(DefinitionError, match="fingerprint"):
        await definitions.keep("../other", b"x")
    assert not (tmp_path / "other").exists()


async def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    definitions = FileDefinitions(tmp_path / "datasets")
    (tmp_path / "datasets").rmdir()

    with pytest.raises(Refused, match="datasets/abc"):
        await definitions.keep("abc", b"x")


async def test_without_descriptors_it_is_kept_when_there_are_some_again(tmp_path, monkeypatch):
    definitions = FileDefinitions(tmp_path)

    def no_descriptors(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as short:
        short.setattr("penstock_dispatcher.work_dir.definition_store.write_whole", no_descriptors)
        with pytest.raises(Overloaded, match="Too many open files"):
            await definitions.keep("abc", b"x")
        assert not definitions.variants("abc")

    await definitions.keep("abc", b"x")
    assert await definitions.find("abc") == b"x"


async def test_without_descriptors_what_is_there_is_not_taken_for_lost(tmp_path, monkeypatch):
    definitions = FileDefinitions(tmp_path)
    await definitions.keep("abc", b"x")

    def no_descriptors(_file):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as short:
        short.setattr("pathlib.Path.read_bytes", no_descriptors)
        with pytest.raises(Overloaded, match="cannot read .*abc.any") as refused:
            await definitions.find("abc")
    assert refused.value.retry_after

    assert definitions.variants("abc") == ("",)
    assert await definitions.find("abc") == b"x"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="work_dir"):
        FileDefinitions(tmp_path / "file")


async def test_what_no_job_uses_is_forgotten_but_not_at_once(definitions, clock):
    for name in ("used", "unused", "young"):
        await definitions.keep(name, b"x")
    clock.now = KEPT + 1
    await definitions.keep("young", b"x")

    await definitions.forget({"used"})

    assert [bool(definitions.variants(name)) for name in ("used", "unused", "young")] == [1, 0, 1]
    assert await definitions.find("unused") is None
    await definitions.keep("unused", b"again")
    assert await definitions.find("unused") == b"again"


async def test_a_restart_finds_what_was_kept_and_clears_what_was_half_written(tmp_path):
    await FileDefinitions(tmp_path).keep("abc", b"x")
    (tmp_path / ".half").write_bytes(b"x")
    (tmp_path / "empty.any").touch()

    later = FileDefinitions(tmp_path)

    assert await later.find("abc") == b"x"
    assert not later.variants("empty")
    assert not (tmp_path / ".half").exists()


async def test_a_file_that_was_removed_is_kept_anew(tmp_path):
    definitions = FileDefinitions(tmp_path)
    await definitions.keep("abc", b"x")
    (tmp_path / "abc.any").unlink()

    assert await definitions.find("abc") is None
    await definitions.keep("abc", b"x")
    assert await definitions.find("abc") == b"x"


@pytest.mark.parametrize("damage", ["flipped", "cut short", "another one's", "unreadable"])
async def test_a_damaged_file_is_none_and_is_overwritten_when_it_is_registered_again(
    tmp_path, damage, caplog
):
    definitions = FileDefinitions(tmp_path)
    await definitions.keep("abc", b"x" * 100)
    await definitions.keep("other", b"y" * 100)
    file, data = tmp_path / "abc.any", bytearray((tmp_path / "abc.any").read_bytes())
    data[50] ^= 1
    match damage:
        case "flipped":
            file.write_bytes(data)
        case "cut short":
            file.write_bytes(data[:-1])
        case "another one's":
            file.write_bytes((tmp_path / "other.any").read_bytes())
        case "unreadable":
            file.unlink()
            file.mkdir()

    assert await definitions.find("abc") is None
    assert [r for r in caplog.records if "abc.any" in r.message and "again" in r.message]
    assert not await FileDefinitions(tmp_path).find("abc")
    if damage != "unreadable":
        await definitions.keep("abc", b"x" * 100)

        assert await definitions.find("abc") == b"x" * 100
        assert await FileDefinitions(tmp_path).find("abc") == b"x" * 100


async def test_each_python_finds_its_own_variant_or_the_one_that_all_can_load(definitions):
    await definitions.keep("abc", b"older", "3.11")
    await definitions.keep("abc", b"newer", "3.13")
    await definitions.keep("plain", b"all")

    assert await definitions.find("abc", "3.11") == b"older"
    assert await definitions.find("abc", "3.13") == b"newer"
    assert await definitions.find("abc", "3.12") is None
    assert await definitions.find("abc") == b"older"
    assert await definitions.find("plain", "3.12") == b"all"
    assert definitions.variants("abc") == ("3.11", "3.13")


async def test_variants_are_known_after_a_restart_and_a_version_is_no_way_out(tmp_path):
    await FileDefinitions(tmp_path).keep("abc", b"newer", "3.13")

    assert await FileDefinitions(tmp_path).find("abc", "3.13") == b"newer"
    with pytest.raises(DefinitionError, match="version of Python"):
        await FileDefinitions(tmp_path).keep("abc", b"x", "../3.13")


async def test_no_room_is_reported_as_such(tmp_path, monkeypatch):
    def full(_fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(StoreFull, match="no room to write .*abc.any .*No space left"):
        await FileDefinitions(tmp_path, power=True).keep("abc", b"x")
    assert not list(tmp_path.iterdir())


async def test_a_definition_that_somebody_put_there_without_the_key_is_none(tmp_path, caplog):
    store = FileDefinitions(tmp_path, key=b"k" * 32)
    await store.keep("d", b"code")
    stranger = FileDefinitions(tmp_path / "elsewhere", key=b"j" * 32)
    await stranger.keep("d", b"evil")
    (tmp_path / "d.any").write_bytes((tmp_path / "elsewhere" / "d.any").read_bytes())

    assert await FileDefinitions(tmp_path, key=b"k" * 32).find("d") is None
    assert "somebody changed it" in caplog.text
