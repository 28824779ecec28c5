import pytest

from penstock.errors import ConfigError, DefinitionError, Refused
from penstock_dispatcher.definitions import InFolder, InMemory


@pytest.fixture(params=["memory", "folder"])
def definitions(request, tmp_path):
    return InMemory() if request.param == "memory" else InFolder(tmp_path / "datasets")


async def test_the_first_definition_of_a_fingerprint_stays(definitions):
    await definitions.keep("abc", b"first")
    await definitions.keep("abc", b"second")

    assert await definitions.find("abc") == b"first"
    assert await definitions.find("other") is None


async def test_a_fingerprint_is_no_way_out_of_the_folder(tmp_path):
    definitions = InFolder(tmp_path / "datasets")
    (tmp_path / "secret").write_text("x")

    assert await definitions.find("../secret") is None
    with pytest.raises(DefinitionError, match="fingerprint"):
        await definitions.keep("../other", b"x")
    assert not (tmp_path / "other").exists()


async def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    definitions = InFolder(tmp_path / "datasets")
    (tmp_path / "datasets").rmdir()

    with pytest.raises(Refused, match="datasets/abc"):
        await definitions.keep("abc", b"x")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="work_dir"):
        InFolder(tmp_path / "file")
