"""One dispatcher a folder."""

import pytest

from penstock.errors import ConfigError
from penstock_dispatcher.journal.folder import FolderLock


def test_a_folder_belongs_to_one(tmp_path):
    lock = FolderLock(tmp_path)

    with pytest.raises(ConfigError, match=rf"{tmp_path} is in use .*process \d+ on"):
        FolderLock(tmp_path)
    lock.release()
    lock.release()
    FolderLock(tmp_path).release()
