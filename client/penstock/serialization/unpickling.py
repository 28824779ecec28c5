"""Which functions read pickles, and which of the user's classes they may find in them.

These classes travel although no function names them. Each is pickled alone, and loaded alone when
`pickle` or a function asks its module for it. So a class that cannot be sent, or cannot be loaded
on a worker, is an error only if it is needed. It refers to other names of local modules by name.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from penstock.protocol.definition import Spare
from penstock.serialization.bytecode import Op, steps
from penstock.serialization.modules import MAIN, TRAVELLED, is_local, is_local_module
from penstock.serialization.references import nested, references, uses

_PICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve"}
_MAY_UNPICKLE = {("torch", "load"), ("pandas", "read_pickle")}
_OPTION = "allow_pickle"
"""The argument with which `numpy.load` reads pickles."""


def unpickles(code: CodeType, names: Mapping[str, Any]) -> bool:
    """Return whether *code*, whose globals are *names*, reads pickles; libraries are not seen."""
    found = uses(code)
    if any(each.name.partition(".")[0] in _PICKLERS for each in found.imports):
        return True
    for chain in found.chains:
        value = names.get(chain[0])
        module = value.__name__ if isinstance(value, ModuleType) else _module_name(value)
        if module.partition(".")[0] in _PICKLERS:
            return True
        name = chain[1] if isinstance(value, ModuleType) and len(chain) > 1 else chain[0]
        if (module.partition(".")[0], name) in _MAY_UNPICKLE:
            return True
    return any(
        isinstance(constant, tuple) and _OPTION in constant
        for part in nested(code)
        for constant in part.co_consts
    )


def met_by(fn: FunctionType) -> Iterator[tuple[str, type]]:
    """Yield the classes that *fn* may unpickle and that have an attribute which it reads.

    Other classes may change without any effect on its result, such as a model in the same script.
    """
    module = sys.modules.get(str(fn.__module__))
    if module is None or not unpickles(fn.__code__, fn.__globals__):
        return
    read = _names_read(fn)
    for name, cls in sorted(classes_near(module).items()):
        if not read.isdisjoint(_names_of(cls)):
            yield name, cls


def classes_near(module: ModuleType) -> dict[str, type]:
    """Return the classes of local *module* and of those that it imports, by ``module:name``."""
    travelled = vars(module).get(TRAVELLED)
    if travelled is not None:  # it was found out where it came from
        return dict(travelled.near(module))
    return {
        key_of(value): value
        for each in _with_imported(module)
        for name, value in list(vars(each).items())
        if isinstance(value, type) and key_of(value) == key(each.__name__, name)
    }


def key_of(value: Any) -> str:
    """Return ``module:name`` if its local module has *value* under its own name, else nothing."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not is_local(module):
        return ""
    names = getattr(sys.modules.get(module), "__dict__", {})
    return key(module, name) if names.get(name) is value else ""


def key(module: str, name: str) -> str:
    """Return what stands for *name* of *module*: the script has one name, wherever it runs."""
    return f"{MAIN[0] if module in MAIN else module}:{name}"


def _module_name(value: Any) -> str:
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def _names_read(fn: FunctionType) -> set[str]:
    """Return the attributes that *fn* reads, and the local functions that it calls."""
    read: set[str] = set()
    todo, seen = [fn], {fn}
    for each in todo:  # it grows
        read.update(
            step.value
            for part in nested(each.__code__)
            for step in steps(part)
            if step.op is Op.READ_ATTRIBUTE
        )
        for used in references(each.__code__, each.__globals__):
            value = used.value
            if isinstance(value, ModuleType):
                of_modules = (
                    c for c in uses(each.__code__).chains if c[: len(used.chain)] == used.chain
                )
                read -= {name for chain in of_modules for name in chain[1:]}
            elif (
                isinstance(value, FunctionType) and is_local(value.__module__) and value not in seen
            ):
                seen.add(value)
                todo.append(value)
    return {name for name in read if not name.startswith("__")}


def _names_of(cls: type) -> set[str]:
    names: set[str] = set()
    for each in cls.__mro__:
        if is_local(str(each.__module__)):
            names.update(vars(each), getattr(each, "__annotations__", ()))
            for value in vars(each).values():
                code = getattr(getattr(value, "__func__", value), "__code__", None)
                names.update(code.co_names if isinstance(code, CodeType) else ())
    return names


def _with_imported(module: ModuleType) -> list[ModuleType]:
    """Return *module* and the local modules that it imports, or imports classes of."""
    found = {module.__name__: module}
    for value in list(vars(module).values()):
        of = value if is_local_module(value) else None
        if isinstance(value, type) and key_of(value):
            of = sys.modules.get(value.__module__)
        if of is not None:
            found.setdefault(of.__name__, of)
    return [each for name, each in found.items() if sys.modules.get(name) is each]


MOST_BYTES, MOST_OF_ALL = 1 << 16, 1 << 18
"""How large one may be, and all of them together."""


class TooLargeError(Exception):
    """A pickle has more bytes than it may have."""


class Bounded(io.BytesIO):
    """A file in memory that refuses to grow above `MOST_BYTES`."""

    def write(self, data: Any) -> int:
        """See `io.BytesIO.write`."""
        nbytes = data.nbytes if isinstance(data, memoryview) else len(data)
        if self.tell() + nbytes > MOST_BYTES:
            raise TooLargeError
        return super().write(data)


def spares_for(
    readers: Collection[ModuleType],
    sent: Callable[[str, str], bool],
    pickled: Callable[[str, Any], Spare],
) -> dict[str, Spare]:
    """Return the classes that functions of *readers* may meet, and what these classes need.

    Left out are names that are *sent* already, and classes that *pickled* fails for.
    """
    found: dict[str, Spare] = {}
    for module in readers:
        travelled = vars(module).get(TRAVELLED)
        found |= {} if travelled is None else travelled.spares  # they travel on unchanged
    todo = sorted({key for module in readers for key in classes_near(module)})
    seen = set(todo)
    left = MOST_OF_ALL
    for key in todo:  # it grows
        of, _, name = key.partition(":")
        names = vars(sys.modules[of])
        if sent(of, name) or key in found or name not in names:
            continue
        spare = _tried(pickled, key, names[name])
        if spare is not None and len(spare.stream) <= left:
            left -= len(spare.stream)
            found[key] = spare
            todo += [need for need in spare.needs if need not in seen]
            seen.update(spare.needs)
    return found


def _tried(pickled: Callable[[str, Any], Spare], key: str, value: Any) -> Spare | None:
    try:
        return pickled(key, value)
    except Exception:  # noqa: BLE001  a worker says so to whoever asks for it
        return None
