"""Definitions: a pipeline as it travels, a plain part that anyone may read and opaque pickles.

The dispatcher reads structure, cardinality, streams and fingerprint; it never unpickles. Only a
process that runs user code calls `Definition.decode`.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field

import msgspec
import numpy as np

from penstock.analysis.determinism import nondeterminism
from penstock.analysis.sharding import SplitProviderSpec, split_providers
from penstock.errors import DatasetError, DefinitionError
from penstock.graph.node import Node
from penstock.graph.traversal import check_extent, topological_order
from penstock.protocol.malformed import MALFORMED
from penstock.serialization import pickling
from penstock.serialization.digest import ContentKeys
from penstock.serialization.fingerprint import PipelineOutline, outline
from penstock.serialization.operators import OperatorReader, OperatorRecord, OperatorWriter
from penstock.serialization.pickling import Pickled

_VERSION = 1

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The minor version of this process's Python."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A pipeline as it travels. The last stage is the outermost; sources come first."""

    stages: tuple[OperatorRecord, ...]
    outline: PipelineOutline
    cardinality: int
    streams: tuple[SplitProviderSpec, ...]
    """Which sources draw splits of what; empty when the pipeline cannot be split."""
    unsplittable: str
    """Why it cannot be split, or nothing."""
    inexact: str
    """Why an element that is made again may be another one, if it may; see `Dataset.visitation`."""
    pickled: Pickled
    contents: dict[str, memoryview] = field(default_factory=dict, repr=False)
    """Large data by its content key."""
    python: str = PYTHON
    numpy: str = np.__version__
    version: int = _VERSION

    @property
    def fingerprint(self) -> str:
        """See `penstock.serialization.fingerprint`."""
        return self.outline.fingerprint

    @property
    def modules(self) -> tuple[str, ...]:
        """Installed modules that a worker must have, beyond Python's own."""
        return self.pickled.modules

    @property
    def needs(self) -> str:
        """The minor version of Python that can load it; nothing if any can: it has no functions."""
        return self.python if self.pickled.owners else ""

    @property
    def nbytes(self) -> int:
        """About how large it is."""
        return len(self.pickled.stream) + sum(data.nbytes for data in self.contents.values())

    def to_bytes(self) -> bytes:
        """Return it as MessagePack."""
        try:
            return msgspec.msgpack.encode(self)
        except ValueError as exc:
            raise DefinitionError(
                f"the pipeline holds data that is too large to travel ({self.nbytes} bytes in "
                f"all): {exc}; keep it in files, and read these in the pipeline"
            ) from exc

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Definition:
        """Read what `to_bytes` wrote, without unpickling anything; large data are views of *data*.

        Raises:
            DefinitionError: when *data* is none.
        """
        try:
            made = _decoder().decode(data)
        except MALFORMED as exc:
            raise DefinitionError(
                f"these {len(data)} bytes are no definition: {str(exc)[:500]}"
            ) from exc
        if made.version != _VERSION:
            raise DefinitionError(
                f"the definition has version {made.version}; this Penstock reads version {_VERSION}"
            )
        return made

    def decode(self) -> Node:
        """Build the graph again. This unpickles, and so may run what the definition's maker likes.

        Raises:
            DefinitionError: naming what is missing in this process.
        """
        _check_versions(self)
        reader = OperatorReader(pickling.load(self.pickled, self.contents), self.contents)
        node = [reader.node(stage) for stage in self.stages][-1]
        check_extent(node)
        return node


def encode(root: Node) -> Definition:
    """Return the pipeline that ends in *root* as it travels. Runs no user function, reads no data.

    Raises:
        DefinitionError: naming the operator, and what in it cannot be sent.
    """
    keys = ContentKeys()
    writer = OperatorWriter(keys)
    made = tuple(writer.stage(node) for node in topological_order(root))
    pickled, contents = pickling.dump(writer.owned, keys)
    streams, unsplittable = _streams(root)
    return Definition(
        made,
        outline(root, keys),
        root.cardinality,
        streams,
        unsplittable,
        "; ".join(nondeterminism(root)),
        pickled,
        writer.contents | contents,
    )


def _streams(root: Node) -> tuple[tuple[SplitProviderSpec, ...], str]:
    try:
        return split_providers(root), ""
    except DatasetError as exc:
        return (), str(exc)


def _check_versions(definition: Definition) -> None:
    if not definition.needs:
        return  # plain data are the same for all
    if definition.python != PYTHON:
        raise DefinitionError(
            f"the pipeline was made with Python {definition.python} and this process runs Python "
            f"{PYTHON}; functions travel between equal minor versions only: use one for both"
        )
    majors = [version.partition(".")[0] for version in (definition.numpy, np.__version__)]
    if majors[0] != majors[1]:
        raise DefinitionError(
            f"the pipeline was made with NumPy {definition.numpy} and this process has NumPy "
            f"{np.__version__}; install the same major version"
        )


@functools.cache
def _decoder() -> msgspec.msgpack.Decoder[Definition]:
    return msgspec.msgpack.Decoder(Definition)
