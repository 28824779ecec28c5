"""The demo's model."""

import numpy as np

from penstock_cluster.demo.model import ByteModel, frequency_loss


def test_the_model_learns_what_follows_what():
    text = np.tile(np.frombuffer(b"abcdefgh", np.uint8), (4, 16))
    model = ByteModel(seed=0)

    losses = [model.step(text, np.ones(text.shape, bool)) for _ in range(40)]

    assert losses[-1] < 0.2 < frequency_loss(np.bincount(text.ravel(), minlength=256))
