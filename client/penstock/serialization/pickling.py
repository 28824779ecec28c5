"""Users' objects as bytes: pickled together, so that they still share what they shared.

Functions and classes of local modules go by value. A local module itself goes as those of its
names that are used; one that is used in any other way than ``module.name`` goes whole. Objects
are pickled one after another into one stream; behind each follow the modules' names it needed.
"""

from __future__ import annotations

import importlib.util
import io
import pickle
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from types import ModuleType
from typing import Any

from penstock.errors import DefinitionError, describe
from penstock.protocol.definition import ModuleRecord, Pickled, Spare
from penstock.runtime.interrupts import is_interrupt
from penstock.serialization import special_forms
from penstock.serialization.digest import ContentKeys
from penstock.serialization.modules import MAIN, TRAVELLED, is_local, is_stdlib
from penstock.serialization.pickler import Pickler, SparePickler
from penstock.serialization.travelled import TravelledModules, module_named, source_digest
from penstock.serialization.unpickling import Bounded, classes_near, spares_for
from penstock.serialization.value_parts import parts

_ALWAYS_THERE = {"cloudpickle", "penstock"}

# Definitions that older versions saved have these names in their pickles.
_module = module_named
_new_cached, _set_cached = special_forms.new_cached, special_forms.set_cached


def dump(
    owned: Sequence[tuple[str, Any]], keys: ContentKeys | None = None
) -> tuple[Pickled, dict[str, memoryview]]:
    """Pickle objects, each given with its owner; return also the large buffers by key.

    Raises:
        DefinitionError: naming the owner, and which part of its object cannot be pickled.
    """
    if not owned:
        return Pickled(), {}
    file = io.BytesIO()
    pickler = Pickler(file, keys or ContentKeys())
    for owner, value in owned:
        _dump_one(pickler, owner, value)
    beside = spares_for(pickler.readers.values(), pickler.sent, _spare)
    pickled = Pickled(
        file.getvalue(),
        tuple(owner for owner, _ in owned),
        tuple(pickler.buffers),
        tuple(sorted(name for name in pickler.named - _ALWAYS_THERE if not is_stdlib(name))),
        tuple(sorted(pickler.imported)),
        _records(pickler.modules, pickler.readers, beside),
        beside,
    )
    return pickled, pickler.contents


def load(pickled: Pickled, contents: dict[str, memoryview], *, adopt: bool = False) -> list[Any]:
    """Return the objects that *pickled* holds.

    Args:
        pickled: what `dump` made.
        contents: its large buffers.
        adopt: whether this process is for these objects alone: then `import` and `pickle` find the
            modules that came with them.

    Raises:
        DefinitionError: naming the module or object that is missing in this process.
    """
    # Arrays that could be written to before they travelled can be afterwards: a copy for each.
    buffers = (bytearray(contents[key]) for key in pickled.buffers)
    unpickler = pickle.Unpickler(io.BytesIO(pickled.stream), buffers=buffers)
    objects = []
    with TravelledModules(pickled, adopt=adopt).loading():
        for owner in pickled.owners:
            try:
                objects.append(unpickler.load())
                while filling := unpickler.load():
                    for module, names in filling:
                        vars(module).update(names)
            except BaseException as exc:  # `sys.exit` in a user's module, say
                if is_interrupt(exc):
                    raise
                raise _missing(owner, exc, pickled.modules) from exc
    return objects


def _spare(key: str, value: Any) -> Spare:
    """Return *value*, which *key* stands for, as it travels beside what functions use."""
    file = Bounded()
    pickler = SparePickler(file, value)
    pickler.dump(value)
    return Spare(file.getvalue(), tuple(sorted(pickler.needs - {key})))


def _records(
    used: Iterable[ModuleType], readers: Container[str], beside: Iterable[str]
) -> tuple[ModuleRecord, ...]:
    """Return the local modules that travel, and the local packages that they are in."""
    names = {module.__name__ for module in used} | {each.partition(":")[0] for each in beside}
    for name in list(names):
        parts = name.split(".")
        packages = (".".join(parts[:i]) for i in range(1, len(parts)))
        names |= {package for package in packages if is_local(package)}
    return tuple(_record(name, reads=name in readers) for name in sorted(names))


def _record(name: str, *, reads: bool) -> ModuleRecord:
    module = sys.modules.get(name)
    names = getattr(module, "__dict__", {})
    file, path = names.get("__file__"), names.get("__path__")
    known = isinstance(file, str) and name not in MAIN and TRAVELLED not in names
    where = None if path is None else tuple(str(each) for each in path)
    near = tuple(sorted(classes_near(module))) if reads and module is not None else ()
    return ModuleRecord(name, source_digest(str(file)) if known else "", where, near)


def _dump_one(pickler: Pickler, owner: str, value: Any) -> None:
    try:
        pickler.dump(value)
        while filling := pickler.fillings():
            pickler.dump(filling)
        pickler.dump([])
    except Exception as exc:
        raise DefinitionError(message(owner, value, _fails, exc)) from exc


def _fails(value: Any) -> bool:
    try:
        _dump_quietly(value)
    except Exception:  # noqa: BLE001  whatever it is, the value cannot be pickled
        return True
    return False


def _dump_quietly(value: Any) -> None:
    pickler = Pickler(io.BytesIO(), ContentKeys())
    pickler.dump(value)
    while filling := pickler.fillings():
        pickler.dump(filling)


def _missing(owner: str, exc: BaseException, modules: Iterable[str]) -> DefinitionError:
    """Return the error that says why *owner*'s object cannot be loaded here."""
    if isinstance(exc, ModuleNotFoundError) and exc.name:
        absent = {exc.name.partition(".")[0], *filter(_is_absent, modules)}
        names = ", ".join(map(repr, sorted(absent)))
        return DefinitionError(
            f"{owner} needs {'the modules' if len(absent) > 1 else 'the module'} {names}, which "
            "cannot be imported here: install it on the workers, or keep it beside the script, so "
            "that it travels with the pipeline"
        )
    if isinstance(exc, (AttributeError, ImportError)):
        return DefinitionError(
            f"{owner} cannot be loaded here: {exc}; the versions installed here and where the "
            "pipeline was made differ: install the same"
        )
    return DefinitionError(f"{owner} cannot be loaded here: {describe(exc)}")


def _is_absent(module: str) -> bool:
    if module in sys.modules:
        return False
    try:
        return importlib.util.find_spec(module) is None
    except (ImportError, ValueError):
        return True


SHOWN = 6
"""How many parts on the way to a part messages name."""


def message(owner: str, value: Any, fails: Callable[[Any], bool], exc: Exception) -> str:
    """Return which part of *value*, *owner*'s object, cannot be sent; *exc* is pickling's error."""
    # A value that nests too deeply fails at every level: the first few say where.
    too_deep = isinstance(exc, RecursionError) or isinstance(exc.__cause__, RecursionError)
    way, culprit = find(value, fails, SHOWN if too_deep else sys.maxsize)
    where = way_shown(way) if way else "its function or object"
    if isinstance(exc, DefinitionError):  # it knows why, and the remedy
        return f"{owner}: {where}: {exc}"
    reason = "" if "cannot pickle" in str(exc) else f" ({type(exc).__name__}: {exc})"
    return (
        f"{owner}: {where} holds {_describe(culprit)}, which cannot be sent to a worker{reason}; "
        "create it inside the function, or give what holds it a __getstate__ that leaves it out"
    )


def way_shown(way: list[str]) -> str:
    """Return the names of the parts on the *way* to a part as messages show them."""
    shown = way if len(way) <= SHOWN else [*way[:2], "…", *way[-2:]]
    return " of ".join(reversed(shown))


def find(value: Any, fails: Callable[[Any], bool], most: int) -> tuple[list[str], Any]:
    """Return the innermost part of *value* that *fails*, and the names of the parts on the way.

    It is looked for *most* parts deep.
    """
    way: list[str] = []
    seen = {id(value)}
    alive = [value]
    while len(way) < most:
        unseen = ((name, part) for name, part in parts(value).children if id(part) not in seen)
        found = next(((name, part) for name, part in unseen if fails(part)), None)
        if found is None:
            break
        name, value = found
        way.append(name)
        # The parts of a part may be made for the occasion: an id is good while its value lives.
        alive.append(value)
        seen.add(id(value))
    return way, value


def _describe(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = f"{module}{kind.__qualname__}"
    return f"{'an' if name.lstrip('_')[:1].lower() in 'aeiou' else 'a'} {name}"
