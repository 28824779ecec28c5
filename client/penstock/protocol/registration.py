"""Ids of registered datasets, by which readers read them without having the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.protocol.malformed import glimpse
from penstock.protocol.types import Codec, DatasetId

LONGEST_ID = 256
"""Most bytes of an id in UTF-8; a job's name is added to it."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A client's request that others can read its definition by *dataset_id*.

    If *dataset_id* is empty, the id is the definition's fingerprint. *element_spec* comes from
    `penstock.analysis.element_spec.spec_to_bytes`, and is empty if it is not known.
    """

    dataset_id: str
    codec: Codec
    element_spec: bytes = b""


@dataclass(frozen=True, slots=True)
class RegisteredDataset:
    """The dataset that is registered under *dataset_id*; *dataset* is its fingerprint.

    *definition* has no functions and no large data.
    """

    dataset_id: str
    dataset: DatasetId
    codec: Codec
    element_spec: bytes = b""
    definition: bytes = b""


def fault_of_id(given: Any) -> str:
    """Return why *given* cannot be an id, as text for a message; empty if it can."""
    if not isinstance(given, str):
        return f"must be a string, not {given!r:.80}"
    if not given or given != given.strip() or not given.isprintable() or "/" in given:
        return (
            "must be printable characters, without '/' and without spaces around them, not "
            f"{given!r:.80}"
        )
    if len(given.encode("utf-8", "surrogatepass")) > LONGEST_ID:
        return f"may take {LONGEST_ID} bytes: {glimpse(given)} has {len(given)} characters"
    return ""


def scoped(dataset_id: str, job_name: str) -> str:
    """Return the full name of a job that reads by *dataset_id*; each id has its own job names."""
    return f"dataset_id={dataset_id}/{job_name}"
