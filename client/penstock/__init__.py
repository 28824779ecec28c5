"""The public names of Penstock: input data for training, prepared by a cluster of workers."""

from penstock import errors, service
from penstock.analysis.element_spec import ArraySpec, DatasetSpec
from penstock.dataset.dataset import Dataset
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.options import AUTOTUNE, AutotuneOptions, Options

__all__ = [
    "AUTOTUNE",
    "INFINITE",
    "UNKNOWN",
    "ArraySpec",
    "AutotuneOptions",
    "Dataset",
    "DatasetSpec",
    "Options",
    "errors",
    "service",
]
