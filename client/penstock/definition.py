"""Definitions: pipelines written as plain data with opaque pickles, and built again from these.

The dispatcher reads structure, cardinality, streams and fingerprint of a `Definition`; it never
unpickles. Only a process that runs user code calls `decode`. `largest_part` names what makes a
definition large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.analysis.determinism import nondeterminism
from penstock.analysis.freezing import with_shared_caches
from penstock.analysis.ordering import check_snapshots, why_unordered, with_grids
from penstock.analysis.sharding import split_providers
from penstock.errors import DatasetError, DefinitionError
from penstock.graph.node import Node
from penstock.graph.traversal import check_extent, topological_order
from penstock.protocol.definition import PYTHON, Definition, SplitProviderSpec
from penstock.serialization import pickling
from penstock.serialization.digest import ContentKeys
from penstock.serialization.fingerprint import outline
from penstock.serialization.operators import OperatorReader, OperatorWriter
from penstock.serialization.pickling import SHOWN, dump, find, way_shown


def encode(root: Node) -> Definition:
    """Return the pipeline that ends in *root* as it travels. Runs no user function, reads no data.

    Raises:
        DatasetError: see `with_shared_caches`.
        DefinitionError: naming the operator, and what in it cannot be sent.
    """
    root = with_shared_caches(root)
    keys = ContentKeys()
    writer = OperatorWriter(keys)
    made = tuple(writer.stage(node) for node in topological_order(root))
    pickled, contents = pickling.dump(writer.owned, keys)
    streams, unsplittable = _streams(root)
    unordered = unsplittable or why_unordered(root, streams)
    return Definition(
        made,
        outline(root, keys),
        root.cardinality,
        streams,
        unsplittable,
        "; ".join(nondeterminism(root)),
        pickled,
        writer.contents | contents,
        numpy=np.__version__,
        unordered=unordered,
    )


def largest_part(root: Node) -> str:
    """Return which operator takes most of the definition of *root*, and which part of it.

    It is a sentence for messages: this pickles the parts of large functions one by one.
    """
    keys = ContentKeys()
    writer, sizes = OperatorWriter(keys), OwnedSizes(keys)
    for node in topological_order(root):
        begun, known = len(writer.owned), set(writer.contents)
        writer.stage(node)
        arrays = sum(writer.contents[key].nbytes for key in writer.contents.keys() - known)
        sizes.add(node.label, arrays, [value for _, value in writer.owned[begun:]])
    return sizes.largest()


def decode(definition: Definition, *, adopt: bool = False) -> Node:
    """Return the pipeline of *definition*. It unpickles: that may run whatever its maker likes.

    Operators must be loaded, as importing `Dataset` does. With *adopt* this process is for the
    pipeline alone: `import` and `pickle` find the modules that came with it.

    Raises:
        DefinitionError: naming the module or object that is missing in this process.
    """
    _check_versions(definition)
    contents = definition.contents
    objects = pickling.load(definition.pickled, contents, adopt=adopt)
    reader = OperatorReader(objects, contents)
    node = [reader.node(stage) for stage in definition.stages][-1]
    check_extent(node)
    return node


def _streams(root: Node) -> tuple[tuple[SplitProviderSpec, ...], str]:
    try:
        providers = split_providers(root)
        check_snapshots(root)
        return with_grids(root, providers), ""
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


class OwnedSizes:
    """The sizes of what operators hold, in bytes."""

    def __init__(self, keys: ContentKeys) -> None:
        self._keys = keys
        self._found: list[tuple[int, str, Any]] = []

    def add(self, operator: str, arrays: int, owned: Sequence[Any]) -> None:
        """Add *operator*, which holds *arrays*, a number of bytes, and *owned* objects."""
        self._found.append((arrays, operator, None))
        self._found += [(self.of(value), operator, value) for value in owned]

    def largest(self) -> str:
        """Return which operator holds the largest part, and where in it that lies."""
        size, operator, value = max(self._found, key=lambda each: each[0])
        way, _ = find(value, lambda part: 2 * self.of(part) > size, SHOWN)
        if way and way[-1] == "its content":  # of an array, which has no other parts
            way.pop()
        return f"{way_shown(way) if way else 'data'} of {operator} takes {size} bytes"

    def of(self, value: Any) -> int:
        """Return how many bytes *value* takes in a definition; 0 if it cannot be sent by itself."""
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return int(value.nbytes)
        if isinstance(value, (str, bytes, bytearray)):
            return len(value)
        try:
            pickled, contents = dump([("", value)], self._keys)
        except Exception:  # noqa: BLE001  users' objects, which may need what lies around them
            return 0
        return len(pickled.stream) + sum(data.nbytes for data in contents.values())
