"""Makes a damaged chunk of a saved dataset again, from the pipeline that made it."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import Any

from penstock.engine.context import Context
from penstock.engine.rows import elements_of
from penstock.errors import PenstockError, describe
from penstock.graph.node import Node
from penstock.graph.run import given_seed, next_seed, open_root
from penstock.ops.take import Skip
from penstock.runtime.interrupts import is_interrupt
from penstock.saved.chunk_format import ChunkWriter
from penstock.saved.chunk_reader import DamagedError
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import SavedVersion
from penstock.storage.counts import count

log = logging.getLogger("penstock")


def chunk_made_again(node: Node, version: SavedVersion, number: int) -> Any:
    """Return the bytes of chunk *number* of *version*, made again by the pipeline *node*.

    Raises:
        DamagedError: when the pipeline raises, or makes other elements than it made for the chunk.
    """
    manifest, contents = version.manifest, version.chunks[number]
    first = sum(chunk.count for chunk in version.chunks[:number])
    options = manifest.options
    layout = SavedLayout.from_text(manifest.layout)
    writer = ChunkWriter(options.chunk_format, layout, options.compression)
    what = f"elements {first:,} to {first + contents.count:,}"
    try:
        # The operators need the place in a pipeline that they had, because it makes their seeds:
        # there, too, they stood below one other.
        root = Skip(node, 0)
        seed = next_seed(root, given_seed(root)).seed
        with closing(open_root(root, Context.local(seed))) as run:
            left = contents.count if run.skip(first) == first else 0
            while left and (found := elements_of(run.rows(left))):
                left -= len(found)
                while found:
                    found = found[writer.add(found, 1 << 62) :]
        data, its = writer.finish()
    except PenstockError as exc:
        if is_interrupt(exc):
            raise
        raise DamagedError(f"the pipeline cannot make {what} again: {describe(exc)}") from exc
    if its.crc32c != contents.crc32c:
        raise DamagedError(
            f"the pipeline makes other {what} than it made for this file: its functions return "
            "other values each time, or its inputs or a library have changed"
        )
    count(remade=1)
    log.warning("load: %s was damaged, and was made again by its pipeline", version.name(number))
    return data
