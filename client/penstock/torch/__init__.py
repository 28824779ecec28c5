"""Datasets in PyTorch: `Loader` for a training loop, `as_iterable` for a ``DataLoader``.

``pip install "penstock[torch]"``. To import this imports torch.
"""

from penstock.extras import needed

needed("torch", "penstock.torch")

from penstock.torch.loader import Loader, as_iterable

__all__ = ["Loader", "as_iterable"]
