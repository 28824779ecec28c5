"""The demo's account notices what it is there to notice, and its pipeline balances."""

import numpy as np
import pytest

from penstock_cluster.demo.corpus import Corpus, pipeline
from penstock_cluster.demo.train import Epoch


@pytest.fixture
def corpus(tmp_path):
    for i in range(12):
        (tmp_path / f"{i}.txt").write_text(f"line {i} of the text\n" * (40 * i + 1))
    return Corpus.find(tmp_path)


def seen(corpus, batches):
    epoch = Epoch(1, np.zeros(len(corpus.files), np.int64), np.zeros(256, np.int64))
    for batch in batches:
        epoch.note(batch)
    return epoch


def test_an_epoch_over_the_mesh_shows_each_byte_of_each_file_once(cluster, corpus):
    far = pipeline(corpus, seed=3).distribute("distributed_epoch", cluster.target)

    assert seen(corpus, far).complaints(corpus) == []


def test_a_batch_that_is_missing_or_repeated_does_not_balance(corpus):
    batches = list(pipeline(corpus, seed=3))

    assert seen(corpus, batches).complaints(corpus) == []
    assert seen(corpus, batches[1:]).complaints(corpus)
    assert seen(corpus, [*batches, batches[-1]]).complaints(corpus)


def test_changed_bytes_do_not_balance(corpus):
    batches = list(pipeline(corpus, seed=3))
    batches[0] = {**batches[0], "text": batches[0]["text"] + np.uint8(1)}

    assert "not those of the files" in seen(corpus, batches).complaints(corpus)[0]
