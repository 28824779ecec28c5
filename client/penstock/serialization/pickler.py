"""Pickles users' objects: functions and classes of local modules by value.

`class_forms` and `special_forms` say how some values travel; cloudpickle does all others.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import cloudpickle
import numpy as np

from penstock.serialization.class_forms import reduce_class
from penstock.serialization.code_parts import module_contents
from penstock.serialization.digest import ContentKeys, content_key
from penstock.serialization.modules import is_local, is_local_module
from penstock.serialization.references import local_imports, references
from penstock.serialization.special_forms import SPECIAL, is_dispatch, reduce_dispatch
from penstock.serialization.travelled import module_named, namespace_of, value_named
from penstock.serialization.unpickling import MOST_BYTES, TooLargeError, key, key_of, unpickles

_LARGE = 1 << 12
"""Buffers of this size and above are kept by content, beside the stream."""


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles objects one after another, and remembers which names of local modules they need."""

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
        self._spaces: dict[int, _Namespace] = {}
        self.readers: dict[str, ModuleType] = {}
        """The modules of functions that read pickles."""
        self._by_name: dict[type, bool] = {}
        """Whether objects of a type of the user's may say that they are a name of a module."""

    @property
    def modules(self) -> list[ModuleType]:
        """The local modules of which something was pickled."""
        return list(self._modules.values())

    def sent(self, module: str, name: str) -> bool:
        """Return whether *name* of *module* was pickled."""
        return name in self._filled.get(sys.modules[module].__name__, ())

    def reducer_override(self, obj: Any) -> Any:
        """See `pickle.Pickler.reducer_override`."""
        kind = type(obj)
        if issubclass(kind, type):
            return self._class(obj)
        if kind is FunctionType:
            return self._function(obj)
        if is_local_module(obj):
            self._want_whole(obj)
            return module_named, (obj.__name__,)
        special = SPECIAL.get(kind)
        if special is not None:
            reduced = special(obj)
            self._want_home(obj)
            return reduced
        if self._may_be_a_name(kind):
            return self._named_object(obj)
        self._note_named(obj)
        return NotImplemented

    def _class(self, cls: type) -> Any:
        if not is_local(str(cls.__module__)):
            reduced = super().reducer_override(cls)
            if reduced is NotImplemented:
                self._note_named(cls)
            return reduced
        self._want_home(cls)
        return reduce_class(cls, key_of(cls))

    def _function(self, fn: FunctionType) -> Any:
        local = is_local(str(fn.__module__))
        reduced = self._dynamic_function_reduce(fn) if local else super().reducer_override(fn)
        if reduced is NotImplemented:
            self._note_named(fn)
            return NotImplemented
        self._want_home(fn)
        if is_dispatch(fn):
            return reduce_dispatch(fn)
        make, (code, space, *rest), state, *others = reduced
        self._look_into(fn, state[1])
        return make, (code, self._space_of(fn) or space, *rest), state, *others

    def _space_of(self, fn: FunctionType) -> _Namespace | None:
        """Return what stands for the globals of *fn*, if they are those of its module."""
        module = sys.modules.get(str(fn.__globals__.get("__name__")))
        if module is None or vars(module) is not fn.__globals__ or not is_local_module(module):
            return None
        self._modules[module.__name__] = module
        known = self._spaces.get(id(module))
        return known or self._spaces.setdefault(id(module), _Namespace.of(module))

    def _may_be_a_name(self, kind: type) -> bool:
        known = self._by_name.get(kind)
        if known is None:
            own = any(
                getattr(kind, name) is not getattr(object, name)
                for name in ("__reduce__", "__reduce_ex__")
            )
            known = self._by_name[kind] = own and is_local(str(kind.__module__))
        return known

    def _named_object(self, obj: Any) -> Any:
        """Return how *obj* travels: by value also if it says that it is a name of its module."""
        reduced = obj.__reduce_ex__(5)
        if not isinstance(reduced, str):
            return reduced
        module = sys.modules.get(type(obj).__module__)
        if module is not None and vars(module).get(reduced) is obj:
            self._want(module, [reduced])
        return copyreg.__newobj__, (type(obj),), getattr(obj, "__dict__", None)  # type: ignore[attr-defined]

    def _want_home(self, obj: Any) -> None:
        """Have what *obj* is in its module stand there too, where it is loaded."""
        module, _, name = key_of(obj).partition(":")
        if module:
            self._want(sys.modules[obj.__module__], [name])

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
        own = sys.modules.get(str(fn.__module__))
        if own is not None and unpickles(fn.__code__, fn.__globals__):
            self.readers[own.__name__] = own

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
        return module_named, (self.name,)


@dataclass(frozen=True, slots=True)
class _Namespace:
    """Stands in the stream for the globals of a local module."""

    name: str
    places: dict[str, Any]

    @classmethod
    def of(cls, module: ModuleType) -> _Namespace:
        """Return what stands for the globals of *module*."""
        names = vars(module)
        places = {each: names.get(each) for each in ("__package__", "__file__")}
        return cls(module.__name__, {k: v for k, v in places.items() if isinstance(v, str)})

    def __reduce__(self) -> tuple[Any, ...]:
        return namespace_of, (self.name, self.places)


class SparePickler(Pickler):
    """Pickles *root*, and other names of local modules by name."""

    def __init__(self, file: io.BytesIO, root: Any) -> None:
        super().__init__(file, ContentKeys())
        self._root = root
        self.needs: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        """See `pickle.Pickler.reducer_override`."""
        if obj is not self._root:
            if is_local_module(obj):
                return module_named, (obj.__name__,)
            name = key_of(obj)
            if name:
                self.needs.add(name)
                return value_named, tuple(name.split(":"))
        return super().reducer_override(obj)

    def _look_into(self, fn: FunctionType, state: dict[str, Any]) -> None:
        home = fn.__globals__.get("__name__")
        if self._space_of(fn) is not None:
            self.needs.update(key(str(home), name) for name in state["__globals__"])
            state["__globals__"] = {}
        submodules = state["_cloudpickle_submodules"]
        state["_cloudpickle_submodules"] = [m for m in submodules if not is_local_module(m)]

    def _keep(self, buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes > MOST_BYTES:
            raise TooLargeError
        return True
