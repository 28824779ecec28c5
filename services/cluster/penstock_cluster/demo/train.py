"""The demo's training loop, and the account that it balances against the file system."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.dataset.dataset import Dataset
from penstock.element import Element
from penstock_cluster.demo.corpus import Corpus
from penstock_cluster.demo.model import ByteModel, frequency_loss


@dataclass
class Epoch:
    """The elements that the training loop saw in one epoch."""

    number: int
    files: np.ndarray
    """Bytes seen, by file."""
    values: np.ndarray
    """Bytes seen, by value."""
    batches: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    losses: list[float] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """How many bytes of text were seen."""
        return int(self.files.sum())

    def note(self, batch: dict[str, np.ndarray]) -> None:
        """Count *batch* in."""
        mask = batch["mask"]
        self.batches += 1
        self.files += np.bincount(batch["file"][mask], minlength=len(self.files))
        self.values += np.bincount(batch["text"][mask], minlength=256)

    def complaints(self, corpus: Corpus) -> list[str]:
        """Return what does not balance: files and bytes that were missed or repeated."""
        wrong = np.flatnonzero(self.files != np.array(corpus.sizes))
        said = [
            f"epoch {self.number}: {corpus.files[i]} has {corpus.sizes[i]} bytes, "
            f"{self.files[i]} were seen"
            for i in wrong[:5]
        ]
        if len(wrong) > 5:
            said.append(f"epoch {self.number}: and {len(wrong) - 5} files more")
        if not wrong.size and (self.values != corpus.bytes_seen_once()).any():
            said.append(f"epoch {self.number}: the bytes seen are not those of the files")
        return said


def train(dataset: Dataset, corpus: Corpus, epochs: int, console: Console) -> int:
    """Train for *epochs*, print the account; return 0 if it balances and the loss has fallen."""
    model = ByteModel(seed=0)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(
            "loss {task.fields[loss]:.2f} bits  {task.fields[rate]:,.0f} tokens/s  "
            "waited {task.fields[waited]:.1f} s"
        ),
        TimeElapsedColumn(),
    )
    done = []
    with Progress(*columns, console=console) as progress:
        for number in range(1, epochs + 1):
            bar = progress.add_task(
                f"epoch {number}", total=corpus.nbytes, loss=8.0, rate=0.0, waited=0.0
            )
            done.append(_epoch(number, iter(dataset), model, corpus, progress, bar))
    return _account(done, corpus, console)


def _epoch(
    number: int,
    batches: Iterator[Element],
    model: ByteModel,
    corpus: Corpus,
    progress: Progress,
    bar: TaskID,
) -> Epoch:
    epoch = Epoch(number, np.zeros(len(corpus.files), np.int64), np.zeros(256, np.int64))
    began = asked = time.perf_counter()
    for batch in batches:
        epoch.waited += time.perf_counter() - asked
        epoch.note(batch)
        epoch.losses.append(model.step(batch["text"], batch["mask"]))
        asked = time.perf_counter()
        epoch.seconds = asked - began
        progress.update(
            bar,
            completed=epoch.nbytes,
            loss=float(np.mean(epoch.losses[-20:])),
            rate=epoch.nbytes / epoch.seconds,
            waited=epoch.waited,
        )
    return epoch


def _account(done: list[Epoch], corpus: Corpus, console: Console) -> int:
    table = Table("epoch", "files", "bytes seen", "bytes on disk", "batches", "loss", "tokens/s")
    for epoch in done:
        table.add_row(
            str(epoch.number),
            f"{np.count_nonzero(epoch.files):,} of {len(corpus.files):,}",
            f"{epoch.nbytes:,}",
            f"{corpus.nbytes:,}",
            f"{epoch.batches:,}",
            f"{np.mean(epoch.losses[-20:]):.2f}",
            f"{epoch.nbytes / max(epoch.seconds, 1e-9):,.0f}",
        )
    console.print(table)
    complaints = [text for epoch in done for text in epoch.complaints(corpus)]
    least = frequency_loss(corpus.bytes_seen_once())
    last = float(np.mean(done[-1].losses[-20:]))
    if last >= least:
        complaints.append(f"the loss is {last:.2f}; byte frequencies alone give {least:.2f}")
    for text in complaints:
        console.print(f"[red]{text}")
    if not complaints:
        console.print(
            f"The account balances: each of {len(corpus.files):,} files was read once an epoch, "
            f"each byte was seen once.\nThe loss fell to {last:.2f} bits a byte; byte frequencies "
            f"alone give {least:.2f}."
        )
    return 1 if complaints else 0
