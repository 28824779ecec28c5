"""Feed training from a mesh of input workers."""

from penstock import errors, service
from penstock.dataset import Dataset
from penstock.graph import INFINITE, UNKNOWN

__all__ = ["INFINITE", "UNKNOWN", "Dataset", "errors", "service"]
