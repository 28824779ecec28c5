"""The public names of Penstock: input data for training, prepared by a cluster of workers.

They are loaded when they are first asked for: services and children import parts of the library
only, and start in half the time.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import errors, service
    from penstock.analysis.array_spec import ArraySpec, DatasetSpec
    from penstock.dataset.dataset import Dataset
    from penstock.environment.detect import cluster_environment
    from penstock.explanation.ask import explain
    from penstock.graph.node import INFINITE, UNKNOWN
    from penstock.options import AUTOTUNE, AutocacheOptions, AutotuneOptions, Options
    from penstock.preemption.handler import PreemptionHandler, TerminationConfig
    from penstock.ragged import Ragged
    from penstock.reference import Reference

__all__ = [
    "AUTOTUNE",
    "INFINITE",
    "UNKNOWN",
    "ArraySpec",
    "AutocacheOptions",
    "AutotuneOptions",
    "Dataset",
    "DatasetSpec",
    "Options",
    "PreemptionHandler",
    "Ragged",
    "Reference",
    "TerminationConfig",
    "cluster_environment",
    "errors",
    "explain",
    "service",
]

_PLACES = {
    "AUTOTUNE": "penstock.options",
    "INFINITE": "penstock.graph.node",
    "UNKNOWN": "penstock.graph.node",
    "ArraySpec": "penstock.analysis.element_spec",
    "AutocacheOptions": "penstock.options",
    "AutotuneOptions": "penstock.options",
    "Dataset": "penstock.dataset.dataset",
    "DatasetSpec": "penstock.analysis.element_spec",
    "Options": "penstock.options",
    "PreemptionHandler": "penstock.preemption.handler",
    "Ragged": "penstock.ragged",
    "Reference": "penstock.reference",
    "TerminationConfig": "penstock.preemption.handler",
    "cluster_environment": "penstock.environment.detect",
    "explain": "penstock.explanation.ask",
}


def __getattr__(name: str) -> object:
    """Load a public name."""
    if name in _PLACES:
        value: object = getattr(import_module(_PLACES[name]), name)
    elif name in __all__:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
