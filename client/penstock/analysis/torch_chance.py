"""What of PyTorch draws on its global generator. Nothing here imports torch."""

from __future__ import annotations

import functools
import sys
from typing import Any

_GENERATOR = object()
SOURCE = id(_GENERATOR)
"""Stands for the generator that `torch.manual_seed` seeds."""

SEEDER = "manual_seed"

_FUNCTIONS = """
    bernoulli multinomial normal poisson rand rand_like randint randint_like randn randn_like
    randperm nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout1d
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout
    nn.functional.gumbel_softmax nn.functional.rrelu nn.init.kaiming_normal_
    nn.init.kaiming_uniform_ nn.init.normal_ nn.init.orthogonal_ nn.init.sparse_
    nn.init.trunc_normal_ nn.init.uniform_ nn.init.xavier_normal_ nn.init.xavier_uniform_
"""
NAMES = frozenset(f"torch.{name}" for name in _FUNCTIONS.split())
"""Functions that draw, by their full names."""

METHODS = frozenset(
    f"{name}_"
    for name in (
        "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "random",
        "uniform",
    )
)  # fmt: skip
"""Methods of tensors that draw: names that nothing else has."""


class NotLoaded:
    """Stands for something of a module that is not loaded here, by its full name."""

    def __init__(self, name: str) -> None:
        self.name = name


def drawn_by(value: Any) -> str:
    """Return the full name of *value* if it is a function that draws, else nothing."""
    if isinstance(value, NotLoaded):
        return value.name if value.name in NAMES else ""
    torch = sys.modules.get("torch")
    return "" if torch is None else _loaded(torch).get(id(value), "")


def is_generator(value: Any) -> bool:
    """Return whether *value* is a `torch.Generator`."""
    kind = getattr(sys.modules.get("torch"), "Generator", None)
    return isinstance(kind, type) and isinstance(value, kind)


@functools.lru_cache(maxsize=1)
def _loaded(torch: Any) -> dict[int, str]:
    found = {}
    for name in NAMES:
        value = torch
        for part in name.split(".")[1:]:
            value = getattr(value, part, None)
        if value is not None:
            found[id(value)] = name
    return found
