"""What pages say of the source is there: files, dotted names, and the map's folders and classes."""

import importlib
import re

import pytest

from penstock.errors import MissingExtra
from tests.docs.pages import PAGES, ROOT, name

MAP = ROOT / "ARCHITECTURE.md"
LIBRARY = ROOT / "client" / "penstock"
SERVICES = [package.parent for package in (ROOT / "services").glob("*/penstock_*")]
"""The folders that the services' packages are imported from."""


def code_spans(page):
    """What *page* has between single backticks, outside of blocks of code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))


def files(page):
    """The Python files that *page* names, but for those with a name to fill in."""
    found = re.findall(r"[\w./-]+\.py\b", page.read_text())
    return sorted({path for path in found if "NAME" not in path})


def dotted(page):
    """The dotted names below our packages that *page* names."""
    found = re.findall(r"(?<![\w./-])penstock(?:_[a-z]+)?(?:\.\w+)+\b(?!/)", page.read_text())
    return sorted(set(found))


def is_there(path, page):
    """Return whether *path* exists from any folder that paths of *page* are given from."""
    return any((top / path).exists() for top in (ROOT, LIBRARY, *SERVICES, page.parent))


def resolved(path):
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        owner, _, last = path.rpartition(".")
        return getattr(resolved(owner), last)


def exists(path):
    try:
        resolved(path)
    except (AttributeError, ValueError):  # no such name; no such package at all
        return False
    except MissingExtra:  # what it says of itself must do
        _, package, *names = path.split(".")
        text = (LIBRARY / package / "__init__.py").read_text()
        return all(f'"{name}"' in text for name in names[:1])
    return True


def packages():
    """The packages of the library and the services, as the map names them."""
    for top in (LIBRARY, *SERVICES):
        for init in top.rglob("__init__.py"):
            if init.parent != top and init.parent.name != "_pb":
                yield f"{init.parent.relative_to(top)}/"


def classes():
    """The names of all classes of the library and the services."""
    tops = (LIBRARY, *SERVICES)
    text = "\n".join(file.read_text() for top in tops for file in top.rglob("*.py"))
    return set(re.findall(r"^class (\w+)", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_file_that_a_page_names_exists(page):
    assert not [path for path in files(page) if not is_there(path, page)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_dotted_name_below_our_packages_exists(page):
    assert not [path for path in dotted(page) if not exists(path)]


def test_each_folder_that_the_map_names_exists():
    folders = [span for span in code_spans(MAP) if re.fullmatch(r"[a-z_]+(/[a-z_]+)*/", span)]

    assert folders
    assert not [folder for folder in folders if not is_there(folder, MAP)]


def test_the_map_names_each_package():
    assert not set(packages()) - set(code_spans(MAP))


def test_each_class_that_the_map_names_exists():
    named = {span for span in code_spans(MAP) if re.fullmatch(r"[A-Z][a-z]\w*", span)}

    assert named
    assert not named - classes() - {"StopIteration"}


@pytest.mark.parametrize("path", ["penstock.reader.core.nothing", "penstocks.errors"])
def test_a_name_that_is_gone_does_not_exist(path):
    assert not exists(path)
