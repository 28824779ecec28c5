"""Which modules are installed, so that workers have them too, and which are the user's own.

Modules of Python and of installed distributions are *named*; all others *travel*. A
distribution that is installed editable counts as installed: its modules are found by the ``.pth``
files and finders that installers leave for it.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_OURS = ("penstock", "penstock_cluster", "penstock_dispatcher", "penstock_worker")
_SITES = ("site-packages", "dist-packages")
_OF_CYTHON = "_cython_"
"""The prefix of modules that compiled packages make for the types of their functions."""
MAIN = ("__main__", "__mp_main__")
"""The script: under its second name `multiprocessing` imports it in the processes it starts."""

TRAVELLED = "__penstock__"
"""Marks modules that came with a pipeline."""


def is_local(name: str) -> bool:
    """Return whether module *name* is the user's own. One that is not imported is."""
    module = sys.modules.get(name)
    if TRAVELLED in getattr(module, "__dict__", ()):
        return True
    return _is_local(name, None if module is None else _place(module), _is_builtin(module))


def is_local_module(value: object) -> TypeGuard[ModuleType]:
    """Return whether *value* is a module of the user's own; one that came with a pipeline is."""
    if not isinstance(value, ModuleType):
        return False
    return sys.modules.get(value.__name__) is not value or is_local(value.__name__)


def is_local_spec(name: str) -> bool:
    """Return whether ``import name`` would find a module of the user's own; import nothing."""
    if name in sys.modules:
        return is_local(name)
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        return False
    return spec is not None and _is_local(spec.name, _place_of(spec), spec.origin == "built-in")


def installed_name(value: Any) -> str | None:
    """Return ``module:name`` for a class or function that workers can import, else None."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if "<locals>" in name or is_local(module):
        return None
    if not isinstance(value, type) and _resolve(module, name) is not value:
        return None
    return f"{module}:{name}"


def is_stdlib(name: str) -> bool:
    """Return whether module *name* comes with Python."""
    return name.partition(".")[0] in sys.stdlib_module_names


def _resolve(module: str, name: str) -> Any:
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


@functools.lru_cache(maxsize=8192)
def _is_local(name: str, place: str | None, builtin: bool) -> bool:
    if name in MAIN:
        return True
    if name.partition(".")[0] in _OURS or builtin or name.startswith(_OF_CYTHON):
        return False
    if place is None:  # made at run time: it belongs where its package belongs
        parent = name.rpartition(".")[0]
        return is_local(parent) if parent else True
    if place.endswith(tuple(EXTENSION_SUFFIXES)):  # machine code cannot travel: name it
        return False
    return not (_is_installed(name, place) or _is_editable(name, place))


def _is_builtin(module: object) -> bool:
    spec = getattr(module, "__dict__", {}).get("__spec__")
    return getattr(spec, "origin", None) in ("built-in", "frozen")


def _place(module: object) -> str | None:
    """Return the file or folder that *module* comes from."""
    names = getattr(module, "__dict__", {})
    file = names.get("__file__")
    if isinstance(file, str):
        return file
    spec = names.get("__spec__")
    return _place_of(spec) if isinstance(spec, ModuleSpec) else None


def _place_of(spec: ModuleSpec) -> str | None:
    if spec.has_location and spec.origin:
        return spec.origin
    return next(iter(spec.submodule_search_locations or ()), None)


def _is_installed(name: str, place: str) -> bool:
    if not set(_SITES).isdisjoint(Path(place).parts):
        return True
    if any(_lies_in(place, root) for root in _stdlib_roots()):
        return True
    root = _root(name, place)  # archives and ``pip install --target`` make sites of any name
    return root is not None and name.partition(".")[0] in _installed_in(root)


def _root(name: str, place: str) -> str | None:
    """Return the folder on the path in which module *name* was found at *place*."""
    stem = Path(place)
    if stem.stem == "__init__":
        stem = stem.parent
    parts = tuple(name.split("."))
    stem = stem.with_suffix("") if stem.suffix == ".py" else stem
    return str(Path(*stem.parts[: -len(parts)])) if stem.parts[-len(parts) :] == parts else None


@functools.cache
def _installed_in(root: str) -> frozenset[str]:
    """Return the top-level names that installed distributions have in folder *root*."""
    from importlib import metadata  # noqa: PLC0415  it takes long to load, and most do without

    return frozenset(
        file.parts[0].removesuffix(".py")
        for dist in metadata.distributions(path=[root])
        if dist.read_text("RECORD") is not None
        for file in dist.files or ()
    )


def _lies_in(place: str, root: str) -> bool:
    return Path(place).resolve().is_relative_to(Path(root).resolve())


@functools.cache
def _stdlib_roots() -> tuple[str, ...]:
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})


def _is_editable(name: str, place: str) -> bool:
    """Return whether module *name* in *place* is what an editable installation makes importable."""
    top = name.partition(".")[0]
    root = _root(name, str(Path(place).resolve()))
    if any(root == each and (not tops or top in tops) for each, tops in _editable_roots()):
        return True
    return any(
        top == package and _lies_in(place, str(Path(folder).parent))
        for package, folder in _editable_packages()
    )


@functools.cache
def _editable_roots() -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the folders that editable distributions put on the path, with their names there.

    An empty set stands for everything: not every build backend says.
    """
    return tuple(
        (str(Path(line).resolve()), tops)
        for dist in _editable_distributions()
        for tops in [frozenset((dist.read_text("top_level.txt") or "").split())]
        for file in dist.files or ()
        if file.name.endswith(".pth")
        for line in _lines(Path(str(dist.locate_file(file))))
        if Path(line).is_dir()
    )


def _editable_packages() -> Iterator[tuple[str, str]]:
    """Yield the packages that finders of editable distributions map to folders."""
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            mapping = getattr(module, "MAPPING", None)
            yield from mapping.items() if isinstance(mapping, dict) else ()


def _editable_distributions() -> Iterator[Distribution]:
    from importlib import metadata  # noqa: PLC0415  as above

    for dist in metadata.distributions():
        if '"editable": true' in (dist.read_text("direct_url.json") or ""):
            yield dist


def _lines(file: Path) -> list[str]:
    try:
        text = file.read_text()
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]
