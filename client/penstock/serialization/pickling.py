"""Users' objects as bytes: pickled together, so that what they share stays shared.

Functions and classes of local modules go by value. A local module itself goes as those of its
names that are used; one that is used in any other way than ``module.name`` goes whole. Objects
are pickled one after another into one stream; behind each follow the modules' names it needed.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle
import numpy as np

from penstock.errors import DefinitionError
from penstock.protocol.definition import Pickled
from penstock.serialization import pickling_blame
from penstock.serialization.code_parts import TRAVELLED, module_contents
from penstock.serialization.digest import ContentKeys, content_key
from penstock.serialization.modules import installed_name, is_local_module, is_stdlib, local_modules
from penstock.serialization.references import local_imports, references

_LARGE = 1 << 12
"""Buffers of this size and above are kept by content, beside the stream."""

_ALWAYS_THERE = {"cloudpickle", "penstock"}

_registry = threading.RLock()
_loading = threading.local()


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
    with _local_by_value():
        pickler = _Pickler(file, keys or ContentKeys())
        for owner, value in owned:
            _dump_one(pickler, owner, value)
    pickled = Pickled(
        file.getvalue(),
        tuple(owner for owner, _ in owned),
        tuple(pickler.buffers),
        tuple(sorted(name for name in pickler.named - _ALWAYS_THERE if not is_stdlib(name))),
        tuple(sorted(pickler.imported)),
    )
    return pickled, pickler.contents


def load(pickled: Pickled, contents: dict[str, memoryview]) -> list[Any]:
    """Return the objects that *pickled* holds.

    Raises:
        DefinitionError: naming what is missing in this process.
    """
    # Arrays that could be written to before they travelled can be afterwards: a copy for each.
    buffers = (bytearray(contents[key]) for key in pickled.buffers)
    unpickler = pickle.Unpickler(io.BytesIO(pickled.stream), buffers=buffers)
    objects = []
    with _modules_of(pickled.imported):
        for owner in pickled.owners:
            try:
                objects.append(unpickler.load())
                while filling := unpickler.load():
                    for module, names in filling:
                        vars(module).update(names)
            except Exception as exc:
                raise _missing(owner, exc, pickled.modules) from exc
    return objects


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, keys: ContentKeys) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._keep)
        self._keys = keys
        self.buffers: list[str] = []
        self.contents: dict[str, memoryview] = {}
        self.named: set[str] = set()
        self.imported: set[str] = set()
        self._modules: dict[str, ModuleType] = {}
        self._wanted: dict[str, set[str]] = {}
        self._filled: dict[str, set[str]] = {}
        self._whole: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        """See `pickle.Pickler.reducer_override`."""
        if is_local_module(obj):
            self._want_whole(obj)
            return _module, (obj.__name__,)
        special = _SPECIAL.get(type(obj))
        if special is not None:
            return special(obj)
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented:
            self._note_named(obj)
        elif isinstance(obj, FunctionType):
            self._look_into(obj, reduced[2][1])
        return reduced

    def fillings(self) -> list[tuple[_ModuleName, dict[str, Any]]]:
        """Return the names of local modules that are needed and were not pickled yet."""
        found = []
        for name, wanted in self._wanted.items():
            fresh = sorted(wanted - self._filled.setdefault(name, set()))
            self._filled[name] |= wanted
            names = vars(self._modules[name])
            filling = {each: _ModuleName.of(names[each]) for each in fresh if each in names}
            if filling:
                found.append((_ModuleName(name), filling))
        return found

    def _look_into(self, fn: FunctionType, state: dict[str, Any]) -> None:
        """Take along what *fn* uses of local modules, instead of the whole modules."""
        names = state["__globals__"]
        for used in references(fn.__code__, fn.__globals__):
            names.setdefault(used.chain[0], fn.__globals__[used.chain[0]])
            for module, name in used.through:
                self._want(module, [name])
            if is_local_module(used.value):
                self._want_whole(used.value)
        state["__globals__"] = {name: _ModuleName.of(value) for name, value in names.items()}
        submodules = state["_cloudpickle_submodules"]
        state["_cloudpickle_submodules"] = [m for m in submodules if not is_local_module(m)]
        for imported, taken in local_imports(fn.__code__, fn.__globals__):
            self._want_imported(imported, taken)

    def _want_imported(self, module: ModuleType, taken: tuple[str, ...]) -> None:
        self.imported.add(module.__name__)
        if not taken:
            self._want_whole(module)
        self._want(module, taken)
        for value in (getattr(module, each, None) for each in taken):
            if is_local_module(value):
                self.imported.add(value.__name__)
                self._want_whole(value)
        self._want_packages(module.__name__)

    def _want_packages(self, name: str) -> None:
        """Add what leads to module *name*."""
        package, _, last = name.rpartition(".")
        if package:
            self.imported.add(package)
            self._want(sys.modules[package], [last])
            self._want_packages(package)

    def _want_whole(self, module: ModuleType) -> None:
        names = module_contents(module)
        if module.__name__ not in self._whole:
            self._whole.add(module.__name__)
            self._want(module, names)
            for value in names.values():
                if is_local_module(value):
                    self._want_whole(value)

    def _want(self, module: ModuleType, names: Iterable[str]) -> None:
        self._modules[module.__name__] = module
        self._wanted.setdefault(module.__name__, set()).update(names)

    def _note_named(self, obj: Any) -> None:
        named = isinstance(obj, (type, FunctionType, BuiltinFunctionType))
        module = obj.__module__ if named else getattr(obj, "__name__", None)
        if isinstance(module, str) and (named or isinstance(obj, ModuleType)):
            self.named.add(module.partition(".")[0])

    def _keep(self, buffer: pickle.PickleBuffer) -> bool:
        data = buffer.raw()
        if data.nbytes < _LARGE:
            return True
        array = data.obj
        whole = isinstance(array, np.ndarray) and array.flags.c_contiguous
        key = self._keys.key(array) if whole else content_key(data)  # type: ignore[arg-type]
        self.buffers.append(key)
        self.contents[key] = data
        return False


@dataclass(frozen=True, slots=True)
class _ModuleName:
    """Stands in the stream for a local module of which some names travel."""

    name: str

    @classmethod
    def of(cls, value: Any) -> Any:
        """Return what stands for *value* in the stream."""
        return cls(value.__name__) if is_local_module(value) else value

    def __reduce__(self) -> tuple[Any, ...]:
        return _module, (self.name,)


def _module(name: str) -> ModuleType:
    """Return the local module *name* of the pipeline that this thread loads."""
    modules: dict[str, ModuleType] = _loading.modules
    return modules.setdefault(name, ModuleType(name))


def _dump_one(pickler: _Pickler, owner: str, value: Any) -> None:
    try:
        pickler.dump(value)
        while filling := pickler.fillings():
            pickler.dump(filling)
        pickler.dump([])
    except Exception as exc:
        raise DefinitionError(pickling_blame.message(owner, value, _fails, exc)) from exc


def _fails(value: Any) -> bool:
    try:
        _dump_quietly(value)
    except Exception:  # noqa: BLE001  whatever it is, the value cannot be pickled
        return True
    return False


def _dump_quietly(value: Any) -> None:
    pickler = _Pickler(io.BytesIO(), ContentKeys())
    pickler.dump(value)
    while filling := pickler.fillings():
        pickler.dump(filling)


@contextmanager
def _local_by_value() -> Iterator[None]:
    """Let cloudpickle take functions and classes of local modules along."""
    with _registry:
        known = cloudpickle.list_registry_pickle_by_value()
        modules = [module for module in local_modules() if module.__name__ not in known]
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)


@contextmanager
def _modules_of(imported: Iterable[str]) -> Iterator[None]:
    """Collect the local modules of one pipeline; those that functions import become importable."""
    before = getattr(_loading, "modules", None)
    _loading.modules = {}
    for name in imported:
        if name not in sys.modules or hasattr(sys.modules[name], TRAVELLED):
            module = _module(name)
            setattr(module, TRAVELLED, True)
            sys.modules[name] = module
    try:
        yield
    finally:
        _loading.modules = before


def _missing(owner: str, exc: Exception, modules: Iterable[str]) -> DefinitionError:
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
    return DefinitionError(f"{owner} cannot be loaded here: {type(exc).__name__}: {exc}")


def _is_absent(module: str) -> bool:
    if module in sys.modules:
        return False
    try:
        return importlib.util.find_spec(module) is None
    except (ImportError, ValueError):
        return True


def _reduce_cached(cached: Any) -> Any:
    fn = cached.__wrapped__
    if installed_name(fn):
        return NotImplemented
    size = cached.cache_parameters()
    return _new_cached, (size["maxsize"], size["typed"]), fn, None, None, _set_cached


def _new_cached(maxsize: int | None, typed: bool) -> Any:
    # Made before its function: the function may use it, as recursive ones do.
    def call(*args: Any, **kwargs: Any) -> Any:
        return call.target(*args, **kwargs)  # type: ignore[attr-defined]

    return functools.lru_cache(maxsize, typed)(call)


def _set_cached(cached: Any, fn: Callable[..., Any]) -> None:
    cached.__wrapped__.target = fn
    functools.update_wrapper(cached, fn)


def _reduce_cached_property(value: functools.cached_property[Any]) -> Any:
    return functools.cached_property, (value.func,), {"attrname": value.attrname}


def _reduce_code(code: CodeType) -> tuple[Any, tuple[Any, ...]]:
    """Return how *code* travels, with the name of its file: tracebacks from workers show it.

    From 3.1.3 on cloudpickle writes a word in its place. It is copied, so that equal names of files
    are no shared object: that would make the bytes depend on what was interned.
    """
    make, parts = _reduce_code_of_cloudpickle(code)
    named = "".join(code.co_filename)
    return make, tuple(named if part == _NO_FILE else part for part in parts)


_NO_FILE = "<dynamic-code>"
_reduce_code_of_cloudpickle = cloudpickle.Pickler.dispatch_table[CodeType]

_SPECIAL: dict[type, Callable[[Any], Any]] = {
    CodeType: _reduce_code,
    type(_new_cached(None, False)): _reduce_cached,
    functools.cached_property: _reduce_cached_property,
}
