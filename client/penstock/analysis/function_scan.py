"""Finds the random generators and clocks that a user's function uses besides its arguments.

It reads the bytecode of the function, and of the user's other functions to which it refers; it runs
nothing. A name that is bound at run time counts as harmless. A function of an installed package is
noted as unjudged.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from penstock.analysis.entropy import (
    TORCH_METHODS,
    TORCH_SEEDER,
    TORCH_SOURCE,
    Draw,
    Drawing,
    Seeding,
    drawn_from_torch,
    is_clock,
    judge,
    judge_value,
)
from penstock.analysis.name_resolution import (
    UNKNOWN,
    InstanceOf,
    NameUse,
    attribute,
    attributes,
    name_uses,
)
from penstock.element import NestedDataset
from penstock.graph.node import Node, function_name
from penstock.serialization.modules import is_local, is_stdlib

_MOST_FUNCTIONS = 300
_MOST_ITEMS = 64
_DEPTH = 3
_UNNAMED = ("__call__", "__getitem__", "__getitems__", "__iter__", "__next__")
"""Methods that are called without being named."""

_MAKING = ("__init__", "__post_init__")
"""Methods that are called when an object is made."""

_CACHED = type(functools.lru_cache(int))
_CALLABLE = (FunctionType, MethodType, BuiltinFunctionType, np.ufunc)
_KNOWN = {"numpy", "penstock", "torch", "builtins"}
"""Packages whose chance is known: the rest of them does the same each time."""


@dataclass(frozen=True, slots=True)
class Use:
    """One thing that a function draws on."""

    drawing: Drawing
    helper: str
    """The function in which it stands, or nothing if that is the user's function itself."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings in a function."""

    uses: tuple[Use, ...]
    datasets: tuple[Node, ...]
    """Datasets that the function holds: it may return them."""
    unjudged: tuple[str, ...] = ()
    """Functions and objects of installed packages that it calls: nobody looked into them."""


def look(value: Any, *, given_rng: bool) -> Findings:
    """Look into *value*, a function or an object that stands in for one.

    With *given_rng* it gets a generator of its own where it has a keyword-only ``rng``.
    """
    search = _Search()
    search.begin(value, given_rng=given_rng)
    return search.run()


@dataclass(frozen=True, slots=True)
class _Task:
    """A function to be looked into."""

    fn: FunctionType
    owner: Any
    """Its first argument, if that is known."""
    known: Mapping[str, Any]
    """Its other arguments, as far as they are known."""
    outermost: bool
    seedless: bool
    """Whether a generator that it makes without a seed is one: not where it may be given one."""


class _Search:
    def __init__(self) -> None:
        self._todo: list[_Task] = []
        self._seen: set[tuple[int, int]] = set()
        self._uses: dict[Use, None] = {}
        self._seeded: set[int] = set()
        """The generators that are seeded where they are used."""
        self._datasets: dict[int, Node] = {}
        self._foreign: dict[str, None] = {}

    def begin(self, value: Any, *, given_rng: bool) -> None:
        """Look into what the pipeline calls."""
        while isinstance(value, functools.partial):
            given = {f"argument {i}": each for i, each in enumerate(value.args)} | value.keywords
            for name, each in given.items():
                if not (given_rng and name == "rng"):
                    self._hold(each, name)
            value = value.func
        if isinstance(value, _CALLABLE):
            name = function_name(value)
            self._judge(NameUse(name, (value,), bare=False), "", seedless=False, timed=False)
            if not isinstance(value, MethodType) or not isinstance(value.__func__, FunctionType):
                self._note_foreign(value, name)
        self._enter(value, "", (), outermost=True, given_rng=given_rng)

    def run(self) -> Findings:
        """Look into all functions that were found, and into those to which they refer."""
        done = 0
        while done < min(len(self._todo), _MOST_FUNCTIONS):
            self._read(self._todo[done])
            done += 1
        uses = [use for use in self._uses if use.drawing.source not in self._seeded]
        return Findings(tuple(uses), tuple(self._datasets.values()), tuple(self._foreign))

    def _read(self, task: _Task) -> None:
        fn, held = task.fn, _closure(task.fn)
        if not is_local(str(fn.__globals__.get("__name__"))):
            # Installed code is not searched, but it may wrap the user's functions.
            for name, value in held.items():
                self._enter(value, name, (), outermost=task.outermost)
            return
        known = {**held, **task.known}
        if task.owner is not UNKNOWN and fn.__code__.co_argcount:
            known[fn.__code__.co_varnames[0]] = task.owner
        found = list(name_uses(fn.__code__, fn.__globals__, known))
        # Two readings of a clock in one function measure how long something takes.
        timed = sum(is_clock(each.values[-1]) for each in found) > 1
        for each in found:
            self._weigh(each, task, timed=timed)
            for value in each.values[:-1]:
                self._note_dataset(value)
            self._enter(each.values[-1], each.name, fn.__code__.co_names, outermost=False)
        self._weigh_tensors(task, found)

    def _weigh(self, mention: NameUse, task: _Task, *, timed: bool) -> None:
        self._judge(mention, _helper(task), seedless=task.seedless, timed=timed)

    def _judge(self, mention: NameUse, helper: str, *, seedless: bool, timed: bool) -> None:
        judged = judge(mention, seedless=seedless, timed=timed)
        if isinstance(judged, Seeding):
            self._seeded.add(judged.source)
        elif judged is not None:
            self._uses.setdefault(Use(judged, helper))

    def _weigh_tensors(self, task: _Task, found: Sequence[NameUse]) -> None:
        """Look for methods of tensors by name: their objects are known at run time only."""
        taken = attributes(task.fn.__code__)
        if TORCH_SEEDER in taken:
            self._seeded.add(TORCH_SOURCE)
        resolved = {word for each in found for word in each.name.split(".")[1:]}
        for name in sorted(taken & TORCH_METHODS - resolved):
            drawing = Drawing(Draw.CHANCE, f"torch.Tensor.{name}", TORCH_SOURCE)
            self._uses.setdefault(Use(drawing, _helper(task)))

    def _note_foreign(self, value: Any, name: str) -> None:
        """Note something of an installed package: not of NumPy or Python, which are known."""
        kind = value if isinstance(value, (FunctionType, BuiltinFunctionType)) else type(value)
        module = getattr(kind, "__module__", None) or ""
        package = module.partition(".")[0]
        known = package in _KNOWN or is_stdlib(package) or not package or is_local(module)
        if not known and not drawn_from_torch(value):
            self._foreign.setdefault(f"{name or kind.__name__} of {package}")

    def _enter(
        self,
        value: Any,
        name: str,
        methods: tuple[str, ...],
        *,
        outermost: bool,
        given_rng: bool = False,
        depth: int = 0,
    ) -> None:
        """Look into *value*, which may be called, or its *methods* by name."""
        if isinstance(value, FunctionType):
            self._schedule(value, UNKNOWN, outermost=outermost, given_rng=given_rng)
        elif isinstance(value, MethodType):
            if isinstance(value.__func__, FunctionType):
                owner = value.__self__
                self._schedule(value.__func__, owner, outermost=outermost, given_rng=given_rng)
        elif isinstance(value, (functools.partial, _CACHED)):
            inner = value.func if isinstance(value, functools.partial) else value.__wrapped__
            self._enter(inner, name, methods, outermost=outermost, given_rng=given_rng)
        elif isinstance(value, (NestedDataset, Node)):
            self._note_dataset(value)
        elif isinstance(value, (list, tuple, dict)):
            if depth < _DEPTH:
                items = list(value.values() if isinstance(value, dict) else value)[:_MOST_ITEMS]
                for item in items:
                    self._hold(item, name, methods, depth + 1)
        else:
            self._instance(value, methods, outermost=outermost, given_rng=given_rng)

    def _note_dataset(self, value: Any) -> None:
        node = getattr(value, "node", None) if isinstance(value, NestedDataset) else value
        if isinstance(node, Node):
            self._datasets[id(node)] = node

    def _hold(self, value: Any, name: str, methods: tuple[str, ...] = (), depth: int = 0) -> None:
        """Look into *value*, which is there to be used, however that happens."""
        drawing = judge_value(value, name)
        if drawing is not None:
            self._uses.setdefault(Use(drawing, ""))
        self._enter(value, name, methods, outermost=False, depth=depth)

    def _instance(
        self, value: Any, methods: tuple[str, ...], *, outermost: bool, given_rng: bool
    ) -> None:
        """Look into an object of a class of the user's, or one that calling the class makes."""
        if isinstance(value, type):
            value = InstanceOf(value)
        kind = value.cls if isinstance(value, InstanceOf) else type(value)
        if not is_local(kind.__module__):
            self._foreign_instance(value, outermost=outermost, given_rng=given_rng)
            return
        made = _MAKING if isinstance(value, InstanceOf) else ()
        for name in (*made, *_UNNAMED, *methods):
            method = attribute(value, name)
            if isinstance(method, MethodType) and isinstance(method.__func__, FunctionType):
                called = outermost and name in ("__call__", "__getitem__", "__iter__")
                self._schedule(method.__func__, value, outermost=called, given_rng=given_rng)

    def _foreign_instance(self, value: Any, *, outermost: bool, given_rng: bool) -> None:
        """Look for the user's objects in one of an installed package, such as a `Subset`."""
        if isinstance(value, (InstanceOf, type, ModuleType, *_CALLABLE)):
            return
        called = any(hasattr(type(value), name) for name in ("__call__", "__getitem__"))
        if called and not isinstance(value, np.ndarray):
            self._note_foreign(value, "")
        for name, inner in list(getattr(value, "__dict__", {}).items())[:_MOST_ITEMS]:
            if isinstance(inner, FunctionType) or is_local(type(inner).__module__):
                self._enter(inner, name, (), outermost=outermost, given_rng=given_rng)

    def _schedule(self, fn: FunctionType, owner: Any, *, outermost: bool, given_rng: bool) -> None:
        key = (id(fn), id(owner.cls if isinstance(owner, InstanceOf) else owner))
        if key in self._seen:
            return
        self._seen.add(key)
        known = _defaults(fn) if outermost else {}
        # A helper with an optional argument may be given a generator: ``rng = rng or Random()``.
        optional = [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
        given = given_rng and "rng" in (fn.__kwdefaults__ or {})
        if given:
            known.pop("rng", None)
        seedless = not given if outermost else None not in optional
        seedless = seedless and "seed" not in fn.__code__.co_names
        self._todo.append(_Task(fn, owner, known, outermost, seedless))


def _helper(task: _Task) -> str:
    return "" if task.outermost else function_name(task.fn)


def _closure(fn: FunctionType) -> dict[str, Any]:
    held = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            held[name] = cell.cell_contents
    return held


def _defaults(fn: FunctionType) -> dict[str, Any]:
    """Return the arguments that the pipeline does not give."""
    code, values = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (fn.__kwdefaults__ or {})
