"""The registered pipelines and their ids: facts, records, and how facts change records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

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


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """A registered pipeline, described without its functions."""

    providers: tuple[SplitProviderSpec, ...]
    unsplittable: str
    nondeterministic: str = ""
    outline: str = ""
    pythons: tuple[str, ...] = ()
    """The minor versions of Python that can load it, which made it; none if all can."""
    unordered: str = ""
    """Why its elements cannot be read in one order, if so."""


@dataclass(frozen=True, slots=True)
class RegistrationRecord:
    """An id that a dataset can be read by: *explicit* if a client chose it."""

    dataset: DatasetId
    codec: Codec
    element_spec: bytes
    explicit: bool


def apply(
    datasets: dict[DatasetId, DatasetRecord],
    registrations: dict[str, RegistrationRecord],
    fact: DatasetFact,
) -> None:
    """Let *fact* be true."""
    match fact:
        case DatasetRegistered(dataset, providers, unsplittable, why, outline, python, unordered):
            known = datasets.get(dataset)
            pythons = {*(known.pythons if known is not None else ()), python} - {""}
            about = (providers, unsplittable, why, outline, tuple(sorted(pythons)))
            datasets[dataset] = DatasetRecord(*about, unordered)
        case IdRegistered(dataset_id, dataset, codec, spec, explicit):
            registrations[dataset_id] = RegistrationRecord(dataset, codec, spec, explicit)
        case DatasetForgotten(dataset):
            del datasets[dataset]
            for dataset_id in [i for i, one in registrations.items() if one.dataset == dataset]:
                del registrations[dataset_id]
        case _:
            assert_never(fact)
