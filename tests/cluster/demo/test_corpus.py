"""The demo's files."""

import pytest

from penstock.errors import MissingFile
from penstock_cluster.demo.corpus import Corpus


def test_a_folder_without_text_is_an_error_that_names_it(tmp_path):
    with pytest.raises(MissingFile, match=str(tmp_path)):
        Corpus.find(tmp_path)
