"""How facts of datasets change what is registered."""

from __future__ import annotations

from typing import assert_never

from penstock.protocol.types import DatasetId
from penstock_dispatcher.core.dataset_facts import (
    DatasetFact,
    DatasetForgotten,
    DatasetRegistered,
    IdRegistered,
)
from penstock_dispatcher.core.records import DatasetRecord, RegistrationRecord


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
