"""A language model's data: three corpora mixed, packed and read in one order, through a crash.

    pip install pyarrow
    python examples/llm_pretraining.py  # takes one to two minutes

Two ranks read packs of 1,024 tokens. At pack 100, rank 0 changes the weights of the corpora. At
pack 600, the ranks save the state, and then they are killed. Three ranks continue from this state.
Last, one rank reads everything without a break, and the program compares the packs.
"""

import json
import multiprocessing
import sysconfig
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock import Dataset, service
from penstock_cluster import LocalCluster

CAPACITY, END, CHANGE, SAVE, PACKS = 1024, 256, 100, 600, 1200


def make_corpora(folder: Path) -> None:
    """Write the standard library's sources as .jsonl.zst, as Parquet and as lines of text."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [part for file in files for part in file.read_text("utf-8").split("\n\n") if part]
    with pa.output_stream(str(folder / "web.jsonl.zst"), compression="zstd") as out:
        out.write("".join(json.dumps({"text": text}) + "\n" for text in texts[::3]).encode())
    pq.write_table(pa.table({"text": texts[1::3]}), folder / "code.parquet", row_group_size=1000)
    lines = "".join(text.replace("\n", " ") + "\n" for text in texts[2::3])
    (folder / "books.txt").write_text(lines, "utf-8")


def document(row: Any) -> dict[str, np.ndarray]:
    """Return the tokens of a text, and its number beside each. Call your tokeniser here."""
    data = (row["text"] if isinstance(row, dict) else row).encode()
    tokens = np.append(np.frombuffer(data, np.uint8).astype(np.int32), np.int32(END))
    return {"tokens": tokens, "document": np.full(len(tokens), zlib.crc32(data), np.int64)}


def packs(folder: Path, target: str, job: str, rank: int, ranks: int) -> Dataset:
    """Return the packs of *rank*. Workers make them."""
    corpora = {
        "web": Dataset.json_lines(folder / "web.jsonl.zst").global_shuffle(1),
        "code": Dataset.parquet(folder / "code.parquet").global_shuffle(2),
        "books": Dataset.text_lines(folder / "books.txt").global_shuffle(3),
    }
    texts = {name: corpus.map(document) for name, corpus in corpora.items()}
    weights = {"web": 0.6, "code": 0.3, "books": 0.1}
    mixed = Dataset.mixture(texts, weights, seed=7, turns_per_task=256)
    return mixed.pack(CAPACITY, pad=0).distribute(
        "distributed_epoch", target, job, rank, ranks, ordered=True
    )


def train(folder: Path, target: str, job: str, rank: int, ranks: int, first: int) -> None:
    """Read the packs from number *first* on, and log the documents of each."""
    saved, log = folder / "state", (folder / f"{job}-{first}-{rank}").open("w")
    state = json.loads(saved.read_text()) if first else None
    with log, packs(folder, target, job, rank, ranks).iterator(state) as elements:
        for number in range(first + (rank - first) % ranks, PACKS, ranks):
            if job == "whole" and number == 0:
                turn = int((folder / "turn").read_text())
                service.set_weights(target, job, {"web": 0.2, "code": 0.8}, at=turn)
            documents = dict.fromkeys(next(elements)["document"].tolist())  # a step of training
            print(number, *documents, file=log, flush=True)
            if job == "broken" and number == CHANGE:
                turn = service.set_weights(target, job, {"web": 0.2, "code": 0.8})
                (folder / "turn").write_text(str(turn))
            if first == 0 and ranks == 2 and number >= SAVE - ranks:
                state = elements.state()  # all ranks wait for each other, and get the same
                (folder / f"state-{rank}").write_text(json.dumps(state))
                (folder / f"state-{rank}").rename(saved)
                time.sleep(3600)  # until it is killed


def read(folder: Path, job: str) -> list[list[str]]:
    """Return the documents of each pack, in the order of the packs."""
    lines = [
        line.split() for file in folder.glob(f"{job}-*") for line in file.read_text().splitlines()
    ]
    return sorted(lines, key=lambda line: int(line[0]))


def main(folder: Path, target: str) -> None:
    """Read with two ranks, kill them, continue with three, and compare with an unbroken run."""
    make_corpora(folder)
    process = multiprocessing.get_context("spawn").Process
    runs = [("broken", 2, 0), ("broken", 3, SAVE), ("whole", 1, 0)]
    for job, ranks, first in runs:
        args = [(folder, target, job, rank, ranks, first) for rank in range(ranks)]
        started = [process(target=train, args=each) for each in args]
        for each in started:
            each.start()
        while ranks == 2 and not (folder / "state").exists():
            time.sleep(0.1)
        for each in started:
            if ranks == 2:
                each.kill()
            each.join()
    broken, whole = read(folder, "broken"), read(folder, "whole")
    turn = (folder / "turn").read_text()
    print(f"the weights changed at turn {turn}")
    print(f"{len(whole)} packs, the same through the crash: {broken == whole}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, LocalCluster(workers=2) as cluster:
        main(Path(name), cluster.target)
