"""The modules that come with a pipeline, in the process that loads it.

A process that runs one pipeline adopts them: `import` and `pickle` find these modules, also if this
host has other modules of the same names. So each name stands for one object, and a class that a
function unpickles from a file is the class that it tests for. Any other process keeps them apart.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import pickle
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.protocol.definition import ModuleRecord, Pickled
from penstock.serialization.modules import MAIN, TRAVELLED

log = logging.getLogger("penstock.definition")

_loading = threading.local()
_replaced: dict[str, ModuleType | None] = {}
"""The modules that the modules adopted last replaced in `sys.modules`."""


class TravelledModule(ModuleType):
    """A module of which some names are loaded; the others that came are loaded on demand."""

    def __repr__(self) -> str:
        """Return what errors call it, those of `pickle` too."""
        return f"<module {self.__name__!r}, of which the pipeline brought what its functions name>"

    def __getattr__(self, name: str) -> Any:
        """Return what *name* stands for, of a name that has not been loaded yet."""
        modules: TravelledModules = vars(self)[TRAVELLED]
        return modules.late(self, name)


class TravelledModules:
    """The modules of *pickled*. With *adopt* they are those of this process from now on."""

    def __init__(self, pickled: Pickled, *, adopt: bool) -> None:
        self._records = {record.name: record for record in pickled.travelled}
        self.spares = pickled.spares
        self._importable = frozenset(pickled.imported)
        self._adopt = adopt
        self._modules: dict[str, TravelledModule] = {}
        self._lock = threading.RLock()
        if adopt:
            _restore()
        for name in [*self._records, *pickled.imported]:
            self.module(name)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Have what this thread unpickles find its modules here."""
        before = getattr(_loading, "modules", None)
        _loading.modules = self
        try:
            yield
        finally:
            _loading.modules = before

    def module(self, name: str) -> TravelledModule:
        """Return module *name*."""
        name = MAIN[0] if name in MAIN else name
        module = self._modules.get(name)
        if module is None:
            module = self._modules[name] = self._new(name)
            self._install(name, module)
            self._enter_package(name, module)
        return module

    def near(self, module: ModuleType) -> dict[str, Any]:
        """Return the classes that functions of *module* may unpickle, by ``module:name``."""
        found = {}
        record = self._records.get(module.__name__)
        for key in () if record is None else record.near:
            of, _, name = key.partition(":")
            with suppress(AttributeError, ImportError):  # one that cannot be loaded here
                found[key] = getattr(self.module(of), name)
        return found

    def late(self, module: TravelledModule, name: str) -> Any:
        """Return *name* of *module*, which was not loaded with the functions.

        Raises:
            AttributeError: when it did not come.
            ImportError: when it cannot be loaded.
        """
        spare = self.spares.get(f"{module.__name__}:{name}")
        if spare is None:
            raise AttributeError(_absent(module.__name__, name))
        with self._lock, self.loading():
            if name in vars(module):
                return vars(module)[name]
            try:
                value = pickle.loads(spare.stream)
            except Exception as exc:
                vars(module).pop(name, None)  # a class whose members are missing
                # `pickle` would put words of its own in the place of an AttributeError.
                raise ImportError(
                    f"{name!r} of module {module.__name__!r} came with the pipeline and cannot be "
                    f"loaded here: {type(exc).__name__}: {exc}"
                ) from exc
            value = vars(module).setdefault(name, value)
            for need in spare.needs:
                of, _, needed = need.partition(":")
                with suppress(
                    AttributeError, ImportError
                ):  # then what needs it says so when it is called
                    getattr(self.module(of), needed)
            return value

    def _new(self, name: str) -> TravelledModule:
        module = TravelledModule(name)
        vars(module)[TRAVELLED] = self
        record = self._records.get(name)
        if record is not None and record.path is not None:
            module.__path__ = list(record.path)
        if self._adopt and record is not None and record.digest:
            _report_another(record)
        return module

    def _install(self, name: str, module: ModuleType) -> None:
        if self._adopt:
            for each in MAIN if name == MAIN[0] else (name,):
                _replaced.setdefault(each, sys.modules.get(each))
                sys.modules[each] = module
        elif name in self._importable:
            there = sys.modules.get(name)
            if there is None or TRAVELLED in vars(there):
                sys.modules[name] = module

    def _enter_package(self, name: str, module: ModuleType) -> None:
        package, _, last = name.rpartition(".")
        if package in self._records:
            setattr(self.module(package), last, module)
        elif package and self._adopt:
            with suppress(ImportError):  # then nothing of it can be needed
                setattr(importlib.import_module(package), last, module)


def module_named(name: str) -> ModuleType:
    """Return the local module *name* of the pipeline that this thread loads."""
    modules: TravelledModules = _loading.modules
    return modules.module(name)


def namespace_of(name: str, places: dict[str, Any]) -> dict[str, Any]:
    """Return the globals of module *name*; *places* are its file and package."""
    space = vars(module_named(name))
    for each, value in places.items():
        if space.get(each) is None:
            space[each] = value
    return space


def value_named(module: str, name: str) -> Any:
    """Return what *name* of local *module* stands for."""
    return getattr(module_named(module), name)


def put_in_place(home: str, value: Any) -> None:
    """Make *value* what *home*, a ``module:name``, stands for, unless something is there."""
    if home:
        module, _, name = home.partition(":")
        vars(module_named(module)).setdefault(name, value)


def source_digest(file: str) -> str:
    """Return what tells the source in *file* from others; nothing if it cannot be read."""
    with suppress(OSError):
        return hashlib.blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()
    return ""


def _restore() -> None:
    """Put back the modules that those of the pipeline loaded last replaced."""
    for name, module in _replaced.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module
    _replaced.clear()


def _report_another(record: ModuleRecord) -> None:
    """Warn if this host has another version of the module."""
    here = _file_here(record.name)
    if here and (found := source_digest(here)) and found != record.digest:
        log.warning(
            "module %r came with the pipeline and differs from %s on this host: the pipeline uses "
            "the one that came with it",
            record.name,
            here,
        )


def _file_here(name: str) -> str | None:
    """Return the file that ``import name`` would find on this host; import nothing."""
    path: Sequence[str] | None = None
    spec = None
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        try:
            spec = PathFinder.find_spec(".".join(parts[:i]), path)
        except Exception:  # noqa: BLE001  a finder of the user's: nothing can be said
            return None
        path = None if spec is None else spec.submodule_search_locations
        if path is None and i < len(parts):
            return None
    return spec.origin if spec is not None and spec.has_location else None


def _absent(module: str, name: str) -> str:
    if name.startswith("__"):
        return f"module {module!r} has no attribute {name!r}"
    return (
        f"module {module!r} has no attribute {name!r} here: the pipeline brought of it what its "
        f"functions name; use {name!r} in one of the functions, by its name"
    )
