"""Finds the references of code beyond its arguments: globals, attributes, imports inside."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

from penstock.serialization.bytecode import Op, Step, steps
from penstock.serialization.modules import is_local_module, is_local_spec

Chain = tuple[str, ...]
"""A global name and the attributes taken of it right away: ``np.random.rand``."""

_PLACES = {
    "__annotations__", "__builtins__", "__cached__", "__doc__", "__file__", "__loader__",
    "__name__", "__package__", "__path__", "__spec__",
}  # fmt: skip
"""Globals that describe the place of a module, not its effect."""


@dataclass(frozen=True, slots=True)
class Import:
    """An import statement inside a function."""

    name: str
    level: int
    names: tuple[str, ...]

    def absolute(self, package: str | None) -> str | None:
        """Return the full name of the module, seen from *package*; None if there is none."""
        if not self.level:
            return self.name
        try:
            return importlib.util.resolve_name("." * self.level + self.name, package or "")
        except ImportError:
            return None


@dataclass(frozen=True, slots=True)
class Uses:
    """The references of a piece of code, including the code nested in it."""

    chains: tuple[Chain, ...]
    rebound: frozenset[str]
    """Globals that it assigns: they are its state, not its meaning."""
    reassigned: frozenset[str]
    """The same of variables of the enclosing functions."""
    imports: tuple[Import, ...]


@dataclass(frozen=True, slots=True)
class UsedGlobal:
    """A global that a function uses; through local modules, down to another value."""

    chain: Chain
    value: Any
    through: tuple[tuple[ModuleType, str], ...]
    """The local modules on the way, each with the attribute that was taken of it."""


@functools.lru_cache(maxsize=4096)
def uses(code: CodeType) -> Uses:
    """Return what *code* refers to."""
    chains: set[Chain] = set()
    rebound: set[str] = set()
    reassigned: set[str] = set()
    imports: set[tuple[str, int, tuple[str, ...]]] = set()
    for part in nested(code):
        done = steps(part)
        for i, step in enumerate(done):
            if step.op is Op.READ_GLOBAL:
                chains.add((step.value, *_attributes(done, i + 1)))
            elif step.op is Op.ASSIGN_GLOBAL:
                rebound.add(step.value)
            elif step.op is Op.ASSIGN_OUTER and step.value in part.co_freevars:
                reassigned.add(step.value)
            elif step.op is Op.IMPORT:
                level, names = done[i - 2].value, done[i - 1].value
                imports.add((step.value, level, names or ()))
    return Uses(
        tuple(sorted(chains)),
        frozenset(rebound),
        frozenset(reassigned),
        tuple(Import(*each) for each in sorted(imports)),
    )


def references(code: CodeType, names: Mapping[str, Any]) -> Iterator[UsedGlobal]:
    """Yield what *code* uses of its globals, *names*; each path once, in order.

    Names that it assigns itself are left out, and those that describe the place of its module.
    """
    found = uses(code)
    seen: set[Chain] = set()
    for chain in found.chains:
        if chain[0] in names and chain[0] not in found.rebound and chain[0] not in _PLACES:
            reference = _follow(chain, names[chain[0]])
            if reference.chain not in seen:
                seen.add(reference.chain)
                yield reference


def local_imports(
    code: CodeType, names: Mapping[str, Any]
) -> Iterator[tuple[ModuleType, tuple[str, ...]]]:
    """Yield the local modules that *code* imports when it runs, and the names it takes of each.

    No names stand for the whole module. A module that cannot be imported is left out: perhaps the
    code can do without.
    """
    for each in uses(code).imports:
        name = each.absolute(names.get("__package__"))
        if name is None or not is_local_spec(name):
            continue
        try:
            module = importlib.import_module(name)
            inner = [f"{name}.{part}" for part in each.names if not hasattr(module, part)]
            for missing in inner:
                importlib.import_module(missing)
        except ImportError:
            continue
        yield module, each.names


def _follow(chain: Chain, value: Any) -> UsedGlobal:
    through = []
    at = 1
    while at < len(chain) and is_local_module(value):
        through.append((value, chain[at]))
        value = getattr(value, chain[at], None)
        at += 1
    return UsedGlobal(chain[:at], value, tuple(through))


def _attributes(done: Sequence[Step], at: int) -> Iterator[str]:
    while at < len(done) and done[at].op is Op.READ_ATTRIBUTE:
        yield done[at].value
        at += 1


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield *code*, and the code of functions and classes defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)
