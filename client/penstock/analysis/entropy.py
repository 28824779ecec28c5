"""Decides whether a value draws random numbers or reads a clock. Nothing here imports torch."""

from __future__ import annotations

import datetime as dt
import functools
import os
import random
import secrets
import sys
import time
import uuid
from dataclasses import dataclass
from enum import Enum
from types import BuiltinFunctionType, MethodType
from typing import Any

import numpy as np

from penstock.analysis.name_resolution import NameUse, NotLoaded


class Draw(Enum):
    """A kind of drawing."""

    CHANCE = "random numbers that no seed of the pipeline makes"
    SHARED = "a random generator that all elements share"
    CLOCK = "the time"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Something that differs when it is done again."""

    draw: Draw
    name: str
    """As code calls it: ``random.choice``."""
    source: int
    """Which generator it is drawn from, as an id."""


@dataclass(frozen=True, slots=True)
class Seeding:
    """The generator *source* is set to a position of the function's choice."""

    source: int


def judge(mention: NameUse, *, seedless: bool, timed: bool) -> Drawing | Seeding | None:
    """Return what *mention* draws, if anything.

    *seedless* says whether a generator made without a seed counts, *timed* whether the clock is
    read to measure something.
    """
    last, words = mention.values[-1], mention.name.split(".")
    for i, value in enumerate(mention.values):
        generator = _generator(value)
        if generator is not None:
            if words[-1] in _SEEDERS:
                return Seeding(id(generator))
            return _drawn(generator, words[: i + 1], getattr(last, "__name__", words[-1]))
    if last is np.random.seed:
        return Seeding(id(_NUMPY))
    if name := _FUNCTIONS.get(id(last)) or drawn_from_torch(last):
        return Drawing(Draw.CHANCE, name, _SOURCES.get(name.partition(".")[0], 0))
    if seedless and mention.bare and id(last) in _MAKERS:
        return Drawing(Draw.CHANCE, f"{_MAKERS[id(last)]} without a seed", id(last))
    reads = is_clock(last) or (mention.bare and id(last) in _CLOCKS_IF_BARE)
    return Drawing(Draw.CLOCK, mention.name, 0) if reads and not timed else None


def judge_value(value: Any, name: str) -> Drawing | None:
    """Return the drawing if *value*, found under *name*, is a random generator."""
    generator = _generator(value)
    return None if generator is None else _drawn(generator, [name], name)


def is_clock(value: Any) -> bool:
    """Return whether *value* is a function that reads the clock."""
    if id(value) in _CLOCKS:
        return True
    owner = value.__self__ if isinstance(value, BuiltinFunctionType) else None
    of_dates = isinstance(owner, type) and issubclass(owner, dt.date)
    return of_dates and value.__name__ in {"now", "today", "utcnow"}


def _drawn(generator: Any, way: list[str], last: str) -> Drawing:
    if isinstance(generator, random.SystemRandom):
        return Drawing(Draw.CHANCE, "random.SystemRandom", id(generator))
    for module, own in (("random", _PYTHON), ("numpy.random", _NUMPY)):
        if generator is own:
            return Drawing(Draw.CHANCE, f"{module}.{last}", id(generator))
    return Drawing(Draw.SHARED, ".".join(way), id(generator))


def _generator(value: Any) -> Any:
    """Return the random generator that *value* is, or of which it is a method."""
    if isinstance(value, (MethodType, BuiltinFunctionType)):
        value = value.__self__
    return value if isinstance(value, _GENERATORS) or is_torch_generator(value) else None


def drawn_from_torch(value: Any) -> str:
    """Return the full name of *value* if it is a function that draws, else nothing."""
    if isinstance(value, NotLoaded):
        return value.name if value.name in TORCH_NAMES else ""
    torch = sys.modules.get("torch")
    return "" if torch is None else _torch_loaded(torch).get(id(value), "")


def is_torch_generator(value: Any) -> bool:
    """Return whether *value* is a `torch.Generator`."""
    kind = getattr(sys.modules.get("torch"), "Generator", None)
    return isinstance(kind, type) and isinstance(value, kind)


@functools.lru_cache(maxsize=1)
def _torch_loaded(torch: Any) -> dict[int, str]:
    found = {}
    for name in TORCH_NAMES:
        value = torch
        for part in name.split(".")[1:]:
            value = getattr(value, part, None)
        if value is not None:
            found[id(value)] = name
    return found


_GENERATOR = object()
TORCH_SOURCE = id(_GENERATOR)
"""Stands for the generator that `torch.manual_seed` seeds."""

TORCH_SEEDER = "manual_seed"

_TORCH_FUNCTIONS = """
    bernoulli multinomial normal poisson rand rand_like randint randint_like randn randn_like
    randperm nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout1d
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout
    nn.functional.gumbel_softmax nn.functional.rrelu nn.init.kaiming_normal_
    nn.init.kaiming_uniform_ nn.init.normal_ nn.init.orthogonal_ nn.init.sparse_
    nn.init.trunc_normal_ nn.init.uniform_ nn.init.xavier_normal_ nn.init.xavier_uniform_
"""
TORCH_NAMES = frozenset(f"torch.{name}" for name in _TORCH_FUNCTIONS.split())
"""Functions that draw, by their full names."""

TORCH_METHODS = frozenset(
    f"{name}_"
    for name in (
        "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "random",
        "uniform",
    )
)  # fmt: skip
"""Methods of tensors that draw: names that nothing else has."""

_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_SEEDERS = {"seed", "set_state", "setstate", TORCH_SEEDER}
_PYTHON = random.random.__self__  # type: ignore[attr-defined]  # a method of the module's generator
_NUMPY = np.random.rand.__self__  # type: ignore[attr-defined]
_FUNCTIONS = {
    id(function): name
    for name, function in {
        "numpy.random.ranf": np.random.ranf,
        "numpy.random.sample": np.random.sample,
        "os.urandom": os.urandom,
        "random.SystemRandom": random.SystemRandom,
        "secrets.randbelow": secrets.randbelow,
        "secrets.token_bytes": secrets.token_bytes,
        "secrets.token_hex": secrets.token_hex,
        "secrets.token_urlsafe": secrets.token_urlsafe,
        "uuid.uuid1": uuid.uuid1,
        "uuid.uuid4": uuid.uuid4,
    }.items()
}
_SOURCES = {"numpy": id(_NUMPY), "torch": TORCH_SOURCE}
_MAKERS = {
    id(maker): f"{'random' if maker is random.Random else 'numpy.random'}.{maker.__name__}()"
    for maker in (
        random.Random, np.random.default_rng, np.random.RandomState, np.random.SeedSequence,
        np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64,
    )
}  # fmt: skip
_CLOCKS = {id(time.time), id(time.time_ns)}
"""Not `time.perf_counter` and its like, which mean nothing but differences."""
_CLOCKS_IF_BARE = {id(time.localtime), id(time.gmtime), id(time.ctime)}
