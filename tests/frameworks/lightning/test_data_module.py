"""The recipe for Lightning: a `LightningDataModule` of loaders, saved with its checkpoints."""

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from penstock import Dataset
from penstock.torch import Loader


class Mesh(lightning.LightningDataModule):
    def __init__(self, target, job_name):
        super().__init__()
        self.target, self.job_name = target, job_name

    def train_dataloader(self):
        samples = Dataset.range(80).map(lambda x: np.float32([x, 1]) / 80).batch(8)
        return Loader(samples.distribute("distributed_epoch", self.target, self.job_name))


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.seen = []

    def training_step(self, dataloader_iter):  # else Lightning takes a batch ahead, as read
        batch, _, _ = next(dataloader_iter)
        self.seen += [round(float(x) * 80) for x in batch[:, 0]]
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def trainer(folder, **how):
    return lightning.Trainer(
        accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder, **how,
    )  # fmt: skip


def test_each_epoch_reads_each_sample_once(cluster, tmp_path):
    model = Model()

    trainer(tmp_path, max_epochs=2, enable_checkpointing=False).fit(
        model, datamodule=Mesh(cluster.target, "lightning")
    )

    assert sorted(model.seen) == sorted([*range(80)] * 2)


def test_a_checkpoint_in_mid_epoch_goes_on_with_what_was_not_read(cluster, tmp_path):
    keep = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=4, save_top_k=-1)
    first, second = Model(), Model()
    trainer(tmp_path, max_steps=6, callbacks=[keep]).fit(
        first, datamodule=Mesh(cluster.target, "lightning, first")
    )

    trainer(tmp_path, max_epochs=1, enable_checkpointing=False).fit(
        second,
        datamodule=Mesh(cluster.target, "lightning, second"),
        ckpt_path=tmp_path / "step=4.ckpt",
    )

    assert len(first.seen) == 48
    assert sorted(first.seen[:32] + second.seen) == list(range(80))
