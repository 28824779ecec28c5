"""What Grain takes to pack documents: microseconds of processor time for each."""

from __future__ import annotations

import json
import sys
import time

import grain
from documents import CAPACITY, lengths, tokens
from grain import experimental

BINS = 256
MOST = 10_000
"""Documents that are packed: it takes long."""


def main(number: int) -> None:
    """Pack, and print it. The documents are in memory before."""
    of = lengths(number)["web text"][:MOST]
    documents = [{"tokens": one} for one in tokens(of)]
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    source = grain.MapDataset.source(documents).to_iter_dataset(options)
    packs = experimental.BestFitPackIterDataset(
        source, length_struct={"tokens": CAPACITY}, num_packing_bins=BINS, shuffle_bins=False
    )
    began = time.process_time()
    count = sum(1 for _ in packs)
    used = time.process_time() - began
    padding = 100 * (1 - sum(of) / (CAPACITY * count))
    print(json.dumps({"microseconds": 1e6 * used / len(of), "padding": padding}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
