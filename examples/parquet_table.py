"""A table in Parquet files: two workers read its columns, and a model in NumPy learns from it.

    pip install pyarrow
    python examples/parquet_table.py

The table has the distance, weight and age of parcels, and how long each took to arrive. `COLUMNS`
and `FILTERS` keep the other columns and the lost parcels on disk.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock import Dataset
from penstock_cluster import LocalCluster

FEATURES = ["distance", "weight"]
COLUMNS = [*FEATURES, "hours"]
FILTERS = [("lost", "==", False)]
ROWS, FILES, BATCH = 8000, 4, 100


def make_table(folder: Path) -> str:
    """Write the table, in files of several row groups; return the pattern of their names."""
    rng = np.random.default_rng(0)
    for number in range(FILES):
        distance, weight = rng.uniform(0, 1, (2, ROWS // FILES))
        columns = {
            "distance": distance,
            "weight": weight,
            "hours": 20 * distance + 5 * weight + 2,
            "lost": np.arange(ROWS // FILES) % 10 == 0,
            "note": [f"parcel {i} of file {number}" for i in range(ROWS // FILES)],
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=500)
    return str(folder / "*.parquet")


class Model:
    """A line through the features, fitted by one step of least squares a batch."""

    def __init__(self) -> None:
        self.weights = np.zeros(len(FEATURES) + 1)
        self.rows = 0

    def step(self, batch: dict[str, np.ndarray]) -> None:
        """Learn from *batch*: a dict of an array of float64 for each column."""
        x = np.stack([*(batch[name] for name in FEATURES), np.ones(len(batch["hours"]))], axis=1)
        self.weights -= x.T @ (x @ self.weights - batch["hours"]) / len(x)
        self.rows += len(x)


def train(files: str, address: str) -> None:
    """Train for three passes, and stop and continue in the middle of the second."""
    # `batch` right after `parquet` copies columns, and makes no Python object for a row.
    rows = Dataset.parquet(files, columns=COLUMNS, filters=FILTERS).batch(BATCH)
    batches = rows.shuffle(50).distribute("distributed_epoch", address)
    model = Model()
    for batch in batches:
        model.step(batch)

    with batches.iterator() as before:
        for _ in range(20):
            model.step(next(before))
        checkpoint = json.dumps({"weights": model.weights.tolist(), "input": before.state()})
    print(f"stopped after {model.rows} rows")

    saved = json.loads(checkpoint)  # in another process, on another day
    model.weights = np.array(saved["weights"])
    with batches.iterator(saved["input"]) as after:
        for batch in after:
            model.step(batch)
    for batch in batches:
        model.step(batch)
    distance, weight, start = model.weights
    print(f"{model.rows} rows; hours = {distance:.1f} distance + {weight:.1f} weight + {start:.1f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder, LocalCluster(workers=2) as cluster:
        train(make_table(Path(folder)), cluster.target)
