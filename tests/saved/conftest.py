"""Fixtures of tests of saved datasets."""

import pytest

from penstock.saved.folder import folder_of
from tests.storage.conftest import bucket

__all__ = ["bucket"]


@pytest.fixture(params=["local", "s3"])
def folder(request, tmp_path):
    """A folder that does not exist, on a disk and in an object store."""
    if request.param == "local":
        return folder_of("save", str(tmp_path / "saved"))
    request.getfixturevalue("bucket")
    return folder_of("save", "s3://data/some/saved")
