"""Sources of your own: a table whose rows have numbers, and pages that come one after another.

    python examples/own_source.py              # the pipelines run here
    python examples/own_source.py host:7000    # the cluster there runs them

Workers open the table too: on other hosts, it must be there under the same path.
"""

import argparse
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock import Dataset


class Table:
    """The rows of an SQLite table by number: all that `from_sequence` needs.

    It is pickled and sent to workers, without its connection: each opens one when it needs it.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.connection: sqlite3.Connection | None = None
        with sqlite3.connect(file) as db:
            (self.rows,) = db.execute("select count(*) from words").fetchone()
        db.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "connection": None}

    def __len__(self) -> int:
        return int(self.rows)

    def __getitem__(self, i: int) -> dict[str, Any]:
        if self.connection is None:
            self.connection = sqlite3.connect(self.file, check_same_thread=False)
        query = "select word from words where id = ?"
        (word,) = self.connection.execute(query, (int(i),)).fetchone()
        return {"id": i, "word": word}


def page(number: int) -> Iterator[dict[str, Any]]:
    """Yield the entries of one page; a request to a server would stand here."""
    for entry in range(10):
        yield {"page": number, "entry": entry}


def pages(number: int) -> Dataset:
    """Return page *number* as a dataset."""
    return Dataset.from_generator(page, args=(number,))


def run(table: str, address: str | None) -> None:
    """Read both."""
    # Rows have numbers: they can be shuffled, split among workers, and gone on from at once.
    rows = Dataset.from_sequence(Table(table)).shuffle(100)
    # A generator has none. The numbers of its pages do, so they are the source.
    entries = Dataset.range(20).flat_map(pages)
    for name, dataset in {"rows": rows, "entries": entries}.items():
        batches = dataset.batch(25)
        if address is not None:
            batches = batches.distribute("distributed_epoch", address)
        found = [tuple(row) for batch in batches for row in zip(*batch.values(), strict=True)]
        print(f"{len(found)} {name}, {len(set(found))} of them different")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address", nargs="?", help="a dispatcher's, as host:port")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "words.db"))
        with sqlite3.connect(file) as words:
            words.execute("create table words (id integer primary key, word text)")
            words.executemany("insert into words values (?, ?)", ((i, f"w{i}") for i in range(500)))
        words.close()
        run(file, given.address)
