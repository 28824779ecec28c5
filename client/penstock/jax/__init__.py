"""Datasets in JAX: `Loader` gives elements as global arrays under a sharding.

``pip install "penstock[jax]"``. To import this imports jax.
"""

from penstock.extras import needed

needed("jax", "penstock.jax")

from penstock.jax.loader import Loader

__all__ = ["Loader"]
