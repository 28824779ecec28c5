"""Definitions of pipelines as they travel: plain data, and pickles that this module never loads.

`penstock.definition` turns pipelines into definitions and back. This module holds all that the
services store and compare, so that a service reads definitions without loading operators.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from penstock.errors import DefinitionError, DefinitionTooLarge
from penstock.protocol.malformed import MALFORMED
from penstock.protocol.mixture import WeightStage
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import SourceSlice

_VERSION = 2

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The minor version of this process's Python."""


_LONGEST_SUMMARY = 200

Repeats: TypeAlias = tuple[tuple[str, int], ...]

UNLISTED = -1
"""The `units` of a provider of files: known only after the files are listed."""

ENDLESS = 1 << 62
"""The `units` of an endless source: more than any job draws."""


@dataclass(frozen=True, slots=True)
class MixtureOutline:
    """A mixture whose turns are the units of a split provider; see `penstock.protocol.mixture`."""

    names: tuple[str, ...]
    """The names of its sources."""
    stages: tuple[WeightStage, ...]
    sizes: tuple[int | None, ...]
    """How many elements each source has; None is without end."""
    stop: str = "repeat"
    max_epochs: tuple[int | None, ...] = ()
    """How many passes each source gives; empty or None is without end."""
    seed: int = 0
    cuts: tuple[SourceSlice, ...] = ()
    """Slices to take from the turns, one after another: the units are what they leave."""


@dataclass(frozen=True, slots=True)
class SplitProviderSpec:
    """The units from which the dispatcher cuts one sequence of splits."""

    sources: tuple[str, ...]
    """The paths of the sources that draw from it, as `penstock.graph.traversal.walk` gives them."""
    units: int
    """How many units a pass has, or `UNLISTED`. A source with fewer units clips splits to them."""
    files: FilePattern | None = None
    """The files that are its units."""
    passes: int = 1
    """How often it is read: the product of the counts of the `repeat`s around it, or `INFINITE`."""
    align: int = 1
    """All splits but the last begin and end at multiples of this."""
    repeats: Repeats = ()
    """The `repeat`s around it, outermost first: the path of each, and its count or `INFINITE`."""
    grid: int = 0
    """In ordered reads: the units of a split, if random choices depend on them; otherwise 0."""
    once_a_worker: bool = False
    """Whether a worker runs only one task of the pipeline, whatever its slots.

    This is so if each task reads the whole of an input that is not split."""
    mixture: MixtureOutline | None = None
    """The mixture whose turns are its units, if they are. A mixture within it is not divided."""


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """One operator as plain data."""

    op: str
    label: str
    params: dict[str, Any]
    inputs: tuple[int, ...]
    """The numbers of the stages that it reads."""
    kind: int = -1
    """The number of its class in the pickles, if the class is not Penstock's own."""


@dataclass(frozen=True, slots=True)
class NodePrint:
    """A description of one operator, for messages that say where two pipelines differ."""

    op: str
    label: str
    values: dict[str, str] = field(default_factory=dict)
    """Plain parameters, as text."""
    digests: dict[str, str] = field(default_factory=dict)
    """Other parameters and their parts, as short digests."""
    details: dict[str, str] = field(default_factory=dict)
    """The contents that the operator was built for, such as versions of files, as text."""


@dataclass(frozen=True, slots=True)
class PipelineOutline:
    """A pipeline's fingerprint, and a description of each operator; sources first."""

    fingerprint: str
    stages: tuple[NodePrint, ...]

    @property
    def summary(self) -> str:
        """The operators in a line of at most 200 characters, sources first."""
        alike = [(label, len(list(run))) for label, run in groupby(s.label for s in self.stages)]
        chain = chain_of([label if count == 1 else f"{count} x {label}" for label, count in alike])
        half = _LONGEST_SUMMARY // 2 - 2
        return chain if len(chain) <= _LONGEST_SUMMARY else f"{chain[:half]} … {chain[-half:]}"


@dataclass(frozen=True, slots=True)
class ModuleRecord:
    """A local module that travels with a definition."""

    name: str
    digest: str = ""
    """A digest of its source; empty if the source is not known."""
    path: tuple[str, ...] | None = None
    """A package's search path for modules; None if the module is not a package."""
    near: tuple[str, ...] = ()
    """The classes that its functions may unpickle, each as ``module:name``."""


@dataclass(frozen=True, slots=True)
class Spare:
    """A name of a local module, loaded only on demand."""

    stream: bytes
    needs: tuple[str, ...] = ()
    """The globals that its functions use, each as ``module:name``."""


@dataclass(frozen=True, slots=True)
class Pickled:
    """Users' objects, pickled."""

    stream: bytes = b""
    owners: tuple[str, ...] = ()
    """The operator that each object belongs to, as messages name it."""
    buffers: tuple[str, ...] = ()
    """The content keys of large buffers, in the order of the stream."""
    modules: tuple[str, ...] = ()
    """Installed modules that loading requires, except Python's own."""
    imported: tuple[str, ...] = ()
    """Local modules that its functions import when they run."""
    travelled: tuple[ModuleRecord, ...] = ()
    """The local modules of which it contains a part; older versions saved none."""
    spares: dict[str, Spare] = field(default_factory=dict)
    """Objects that are loaded on demand, by ``module:name``."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A pipeline as it travels. The last stage is the outermost; sources come first."""

    stages: tuple[OperatorRecord, ...]
    outline: PipelineOutline
    cardinality: int
    providers: tuple[SplitProviderSpec, ...]
    """The providers of splits, with their sources; empty if the pipeline cannot be split."""
    unsplittable: str
    """Why the pipeline cannot be split; empty if it can."""
    nondeterministic: str
    """Why a replayed element may differ; empty if it cannot. See `Dataset.visitation`."""
    pickled: Pickled
    contents: dict[str, memoryview] = field(default_factory=dict, repr=False)
    """Large data by its content key."""
    python: str = PYTHON
    numpy: str = ""
    """The version of NumPy that made it."""
    unordered: str = ""
    """Why its elements cannot be read in one order; empty if they can."""
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
        """The Python version (3.x) that can load it; empty if any can, as it has no functions."""
        return self.python if self.pickled.owners else ""

    @property
    def nbytes(self) -> int:
        """Its approximate size in bytes."""
        return len(self.pickled.stream) + sum(data.nbytes for data in self.contents.values())

    @property
    def without_code(self) -> Definition:
        """The definition without functions and large data: it can be inspected, not run."""
        return replace(self, pickled=Pickled(), contents={})

    def to_bytes(self) -> bytes:
        """Return it as MessagePack."""
        try:
            return msgspec.msgpack.encode(self)
        except ValueError as exc:
            raise DefinitionTooLarge(
                f"the pipeline holds data that is too large to travel ({self.nbytes} bytes in "
                f"all): {exc}; keep it in files, and read these in the pipeline"
            ) from exc

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Definition:
        """Read what `to_bytes` wrote, without unpickling anything; large data are views of *data*.

        Raises:
            DefinitionError: when *data* is not a definition that this version can read.
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


def chain_of(operators: list[str]) -> str:
    """Return the names of *operators*, sources first, in one line for messages."""
    return " → ".join(operators)


@functools.cache
def _decoder() -> msgspec.msgpack.Decoder[Definition]:
    return msgspec.msgpack.Decoder(Definition)
