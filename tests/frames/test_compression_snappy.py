"""Blocks of Snappy."""

import sys

import cramjam
import pytest

from penstock.errors import DatasetError
from penstock.frames.compression import snappy_block


@pytest.mark.parametrize("content", [b"", b"a", bytes(100_000), bytes(range(256)) * 7])
def test_a_block_comes_apart_again(content):
    assert bytes(cramjam.snappy.decompress_raw(snappy_block(content))) == content


def test_what_repeats_itself_is_shorter():
    assert len(snappy_block(bytes(100_000))) < 10_000


def test_without_the_extra_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cramjam", None)

    with pytest.raises(DatasetError, match=r"pip install 'penstock\[snappy\]' on all workers"):
        snappy_block(b"a")
