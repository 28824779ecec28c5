"""Where a cluster keeps its dispatcher's files, and what it says when it can be nowhere."""

import tempfile

import pytest

from penstock.errors import ConfigError
from penstock_cluster import LocalCluster
from penstock_cluster.work_folder import given_folder, temporary_folder


@pytest.fixture
def no_temporary_folder(monkeypatch):
    def refuse(**_):
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)


def test_a_given_folder_is_made_with_those_above_it(tmp_path):
    assert given_folder(tmp_path / "a" / "b").is_dir()


def test_a_given_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match=r"work_dir '.*/file/below' cannot be made .*Not a dir"):
        given_folder(tmp_path / "file" / "below")


@pytest.mark.usefixtures("no_temporary_folder")
def test_without_a_folder_for_temporary_files_the_error_says_what_to_give():
    with pytest.raises(ConfigError, match=r"No usable .*give work_dir.*TMPDIR"):
        temporary_folder()


@pytest.mark.usefixtures("no_temporary_folder")
def test_a_cluster_that_has_no_folder_raises_that_and_can_be_closed():
    with pytest.raises(ConfigError, match="give work_dir"), LocalCluster(workers=1):
        pass


def test_a_cluster_in_a_folder_that_cannot_be_made_names_it(tmp_path):
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(ConfigError, match="cannot be made"),
        LocalCluster(work_dir=tmp_path / "file"),
    ):
        pass
