"""The demo's account notices what it is there to notice, and its pipeline balances."""

import numpy as np
import pytest

from penstock.errors import MissingFile
from penstock_cluster.demo.corpus import Corpus, pipeline
from penstock_cluster.demo.model import ByteModel, frequency_loss
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


def test_a_folder_without_text_is_an_error_that_names_it(tmp_path):
    with pytest.raises(MissingFile, match=str(tmp_path)):
        Corpus.find(tmp_path)


def test_the_model_learns_what_follows_what():
    text = np.tile(np.frombuffer(b"abcdefgh", np.uint8), (4, 16))
    model = ByteModel(seed=0)

    losses = [model.step(text, np.ones(text.shape, bool)) for _ in range(40)]

    assert losses[-1] < 0.2 < frequency_loss(np.bincount(text.ravel(), minlength=256))
