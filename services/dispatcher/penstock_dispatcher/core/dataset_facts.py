"""What has been decided of datasets; see `facts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import Codec, DatasetId


@dataclass(frozen=True, slots=True)
class DatasetRegistered:
    """A pipeline is registered. *unsplittable* says why it has no split providers, if so.

    *nondeterministic* says why a replayed element of it may differ, if it may; *outline* names
    its operators, for display. *python* is a minor version that can load it, beside those known
    before; nothing if all can. *unordered* says why its elements have no order of their own, if so.
    """

    dataset: DatasetId
    providers: tuple[SplitProviderSpec, ...]
    unsplittable: str
    nondeterministic: str = ""
    outline: str = ""
    python: str = ""
    unordered: str = ""


@dataclass(frozen=True, slots=True)
class IdRegistered:
    """*dataset* can be read by *dataset_id*, which a client chose if it is *explicit*.

    *codec* and *element_spec* are for its readers; the latter is empty if it is not known.
    """

    dataset_id: str
    dataset: DatasetId
    codec: Codec
    element_spec: bytes
    explicit: bool


@dataclass(frozen=True, slots=True)
class DatasetForgotten:
    """Nothing has used a pipeline for long: it is registered no more, nor are ids of it."""

    dataset: DatasetId


DatasetFact: TypeAlias = DatasetRegistered | IdRegistered | DatasetForgotten
