"""Options of a pipeline: how it runs, where its operators do not say it themselves."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from penstock.errors import DatasetError

AUTOTUNE: Final = -1
"""For `num_parallel_calls` and `buffer_size`: let the pipeline find the number as it runs."""


def check_count_or_auto(op: str, name: str, value: Any) -> int:
    """Return *value* as an int of at least 1, or `AUTOTUNE`.

    Raises:
        DatasetError: naming the operator, the parameter and the value.
    """
    return AUTOTUNE if value == AUTOTUNE else check_count(op, name, value)


def check_count(
    op: str, name: str, value: Any, *, least: int = 1, most: int | None = 2**63 - 1
) -> int:
    """Return *value* as an int of at least *least* and at most *most*.

    Raises:
        DatasetError: naming the operator, the parameter and the value.
    """
    try:
        number = value.__index__()
    except AttributeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise DatasetError(f"{op}: {name} must be an integer of at least {least}, not {value!r}")
    if most is not None and number > most:
        shown = number if number.bit_length() < 200 else f"a number of {number.bit_length()} bits"
        raise DatasetError(f"{op}: {name} must fit int64, which {shown} does not")
    return int(number)


def check_seed(op: str, value: Any) -> int:
    """Return *value*, the seed of a whole run, as an int from 0 to 2⁶³ - 1.

    Raises:
        DatasetError: naming the operator and the value.
    """
    return check_count(op, "seed", value, least=0)


def check_seconds(op: str, name: str, value: Any) -> float:
    """Return *value* as a number of seconds, finite and more than 0.

    Raises:
        DatasetError: naming the operator, the parameter and the value.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise DatasetError(f"{op}: {name} must be a positive number of seconds, not {value!r}")
    return float(value)


T = TypeVar("T", "Options", "AutotuneOptions", "AutocacheOptions")


@dataclass(frozen=True, slots=True)
class AutotuneOptions:
    """Limits of `AUTOTUNE`. None leaves an option as it is.

    Attributes:
        enabled: False takes *cpu_budget* threads and buffers of two elements, and measures nothing.
        cpu_budget: how many threads all tuned operators may use together; by default the number of
            cores.
        ram_budget: how many bytes all tuned buffers may hold together; by default 256 MiB.

    Raises:
        DatasetError: when a budget is no integer of at least 1, or *enabled* no bool.

    >>> two = Options(autotune=AutotuneOptions(cpu_budget=2))
    >>> squares = Dataset.range(3).map(lambda x: x * x, num_parallel_calls=AUTOTUNE)
    >>> list(squares.with_options(two).batch(3))
    [array([0, 1, 4])]
    """

    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None

    def __post_init__(self) -> None:
        _check_flag("autotune.enabled", self.enabled)
        for name in ("cpu_budget", "ram_budget"):
            if getattr(self, name) is not None:
                number = check_count("options", f"autotune.{name}", getattr(self, name))
                object.__setattr__(self, name, number)


@dataclass(frozen=True, slots=True)
class AutocacheOptions:
    """Where to keep elements, if that saves time. None leaves an option as it is.

    With a *path*, the pipeline measures its operators and the storage while it is read. It keeps
    the elements after that operator for which all passes take the least time, or none. Before
    `distribute`, it chooses once, for all readers and workers.

    Attributes:
        path: the folder, local or in an object store. Pipelines may share it.
        max_bytes: how many bytes of elements, before compression, this pipeline may keep; by
            default any number.
        passes: how often this process, or all jobs, read the dataset in all; by default 10.

    Raises:
        DatasetError: when *path* is no path, or a number is no integer of at least 1.

    >>> kept = Options(autocache=AutocacheOptions(path="kept", passes=3))
    >>> list(Dataset.range(3).map(lambda x: x * x).with_options(kept).batch(3))
    [array([0, 1, 4])]
    """

    path: str | os.PathLike[str] | None = None
    max_bytes: int | None = None
    passes: int | None = None

    def __post_init__(self) -> None:
        if self.path is not None:
            path = os.fspath(self.path) if isinstance(self.path, os.PathLike) else self.path
            if not isinstance(path, str) or not path:
                raise DatasetError(f"options: autocache.path must be a folder, not {self.path!r}")
            object.__setattr__(self, "path", path)
        for name in ("max_bytes", "passes"):
            if getattr(self, name) is not None:
                number = check_count("options", f"autocache.{name}", getattr(self, name))
                object.__setattr__(self, name, number)


class ExternalStatePolicy(StrEnum):
    """How to treat a pipeline for which `Dataset.visitation` gives reasons."""

    WARN = "warn"
    IGNORE = "ignore"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Options:
    """Options for `Dataset.with_options`. None leaves an option as it is.

    Attributes:
        deterministic: False lets elements of parallel operators overtake each other, unless an
            operator has its own setting.
        threads: the largest number of threads of an operator, whatever it asks for.
        autotune: see `AutotuneOptions`.
        external_state_policy: what to do about functions with a state of their own (random
            numbers, a clock) and other reasons why a pipeline has a weaker guarantee;
            `Dataset.visitation` lists them. ``"warn"``, the default, logs them once, when elements
            of workers are first read; ``"ignore"`` says nothing; ``"fail"`` refuses to distribute
            or read the pipeline.
        seed: one seed for the whole run: for each shuffle without its own, for other operators
            that draw random numbers, and for each function's ``rng``. Each pass over one dataset
            object derives its own, so epochs differ, and another run has the same epochs. A saved
            state continues with the seed that it was saved with.
        autocache: see `AutocacheOptions`.

    Raises:
        DatasetError: when a value is malformed.

    >>> Options(threads=0)
    Traceback (most recent call last):
    penstock.errors.DatasetError: options: threads must be an integer of at least 1, not 0
    """

    deterministic: bool | None = None
    threads: int | None = None
    autotune: AutotuneOptions = field(default_factory=AutotuneOptions)
    external_state_policy: str | None = None
    seed: int | None = None
    autocache: AutocacheOptions = field(default_factory=AutocacheOptions)

    def __post_init__(self) -> None:
        _check_flag("deterministic", self.deterministic)
        if self.threads is not None:
            object.__setattr__(self, "threads", check_count("options", "threads", self.threads))
        if not isinstance(self.autotune, AutotuneOptions):
            raise DatasetError(f"options: autotune must be AutotuneOptions, not {self.autotune!r}")
        if not isinstance(self.autocache, AutocacheOptions):
            raise DatasetError(
                f"options: autocache must be AutocacheOptions, not {self.autocache!r}"
            )
        if self.external_state_policy not in (None, *ExternalStatePolicy):
            raise DatasetError(
                "options: external_state_policy must be 'warn', 'ignore', 'fail' or None, not "
                f"{self.external_state_policy!r}"
            )
        if self.seed is not None:
            object.__setattr__(self, "seed", check_seed("options", self.seed))

    def under(self, earlier: Options) -> Options:
        """Return these options, and where they say nothing earlier ones.

        Args:
            earlier: what holds where these are None.

        >>> Options(threads=2).under(Options(threads=8, deterministic=False)).deterministic
        False
        """
        autotune = _filled(self.autotune, earlier.autotune)
        autocache = _filled(self.autocache, earlier.autocache)
        return replace(_filled(self, earlier), autotune=autotune, autocache=autocache)


def _filled(later: T, earlier: T) -> T:
    """Return *later*, with the fields of *earlier* in the place of those that are None."""
    unset = (each.name for each in fields(later) if getattr(later, each.name) is None)
    return replace(later, **{name: getattr(earlier, name) for name in unset})


def _check_flag(name: str, value: object) -> None:
    if value is not None and not isinstance(value, bool):
        raise DatasetError(f"options: {name} must be True, False or None, not {value!r}")
