"""What TRL takes to pack documents: microseconds of processor time for each."""

from __future__ import annotations

import json
import sys
import time

import datasets
import numpy as np
import pyarrow as pa
from documents import CAPACITY, lengths, tokens
from trl import pack_dataset


def main(number: int) -> None:
    """Pack, and print it. The documents are in a table before, as TRL reads them."""
    of = lengths(number)["web text"]
    offsets = pa.array(np.concatenate([[0], np.cumsum(of)]).astype(np.int32))
    column = pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(tokens(of))))
    table = datasets.Dataset(pa.table({"tokens": column}))
    datasets.disable_caching()
    datasets.disable_progress_bars()
    began = time.process_time()
    packed = pack_dataset(table, CAPACITY, "bfd")
    used = time.process_time() - began
    padding = 100 * (1 - sum(of) / (CAPACITY * len(packed)))
    print(json.dumps({"microseconds": 1e6 * used / number, "padding": padding}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
