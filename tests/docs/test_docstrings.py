"""Docstrings of what is public say what a caller needs, and their examples are true."""

import doctest
import importlib
import inspect
import re

import numpy as np
import pytest

import penstock
import penstock_cluster
import penstock_dispatcher
import penstock_worker
from penstock import errors, service
from penstock.dataset.iterator import DatasetIterator

pytestmark = pytest.mark.usefixtures("indexes_apart")

MODULES = [
    "penstock.analysis.element_spec",
    "penstock.analysis.visitation",
    "penstock.dataset.dataset",
    "penstock.dataset.elementwise",
    "penstock.dataset.file_sources",
    "penstock.dataset.table_sources",
    "penstock.dataset.iterator",
    "penstock.dataset.mixing",
    "penstock.dataset.regrouping",
    "penstock.dataset.sources",
    "penstock.errors",
    "penstock.graph.traversal",
    "penstock.options",
    "penstock.protocol.types",
    "penstock.reader.distribute",
    "penstock.reference",
    "penstock.runtime.background",
    "penstock.service",
    "penstock_cluster.local",
    "penstock_cluster.member",
    "penstock_dispatcher.config",
    "penstock_dispatcher.server",
    "penstock_worker.config",
    "penstock_worker.server",
]
NAMES = {  # what examples need not import
    "np": np,
    "penstock": penstock,
    **{name: getattr(penstock, name) for name in penstock.__all__},
}
FIELDS = r"^(?:Args|Attributes):\n((?:[ \t]+\S.*\n|\n(?=[ \t]))+)"
ENTRY = r"^    \*{0,2}(\w+): \S"


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in MODULES:
        for test in finder.find(importlib.import_module(module), extraglobs=NAMES):
            if test.examples:
                yield pytest.param(test, id=test.name)


STARTS = re.compile(r"LocalCluster|Member\(|DispatchServer|WorkerServer|distribute|save_job")
"""What examples that start processes of services speak of."""


def starts(param):
    return any(STARTS.search(example.source) for example in param.values[0].examples)


def check(test):
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)

    failed = runner.run(test, out=said.append).failed

    assert not failed, "".join(said)


@pytest.mark.parametrize("test", [each for each in examples() if not starts(each)])
def test_the_example_shows_what_happens(test, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if test.name != "penstock.errors.explained_at":
        monkeypatch.setenv("PENSTOCK_DOCS", "")  # doctest takes the last note for the message
    check(test)


@pytest.mark.quick(1)
@pytest.mark.parametrize("test", [each for each in examples() if starts(each)])
def test_the_example_of_services_shows_what_happens(test, tmp_path, monkeypatch, clusters):
    clusters.close()  # of two on one machine, one waits for the other
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DOCS", "")
    check(test)


def kinds():
    """Each public class and function, by a name that users import it by."""
    found = {}
    for module in (penstock, service, penstock_dispatcher, penstock_worker, penstock_cluster):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found.setdefault(value, f"{module.__name__}.{name}")
    for value, path in found.items():
        yield path, value
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.PenstockError):
            yield f"penstock.errors.{name}", value
    yield "penstock.dataset.iterator.DatasetIterator", DatasetIterator


def members(kind):
    """Each public method and property of a class, but for what it has from Python."""
    for name, value in inspect.getmembers_static(kind):
        found = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        function = found.fget if isinstance(found, property) else found
        if (
            not name.startswith("_")
            and inspect.isfunction(function)
            and function.__module__.startswith("penstock")
        ):
            yield name, found


def public():
    for path, kind in kinds():
        yield path, kind
        if inspect.isclass(kind):
            yield from ((f"{path}.{name}", member) for name, member in members(kind))


PUBLIC = [pytest.param(value, id=path) for path, value in public()]
CALLED = [
    pytest.param(value, id=path)
    for path, value in public()
    if not isinstance(value, property)
    and not (inspect.isclass(value) and issubclass(value, BaseException))
]


def parameters(value):
    """The names of what a caller may give; fields of a dataclass have texts of their own."""
    if hasattr(value, "__dataclass_fields__") or not callable(value):
        return set()
    if issubclass(type(value), type) and issubclass(value, int):
        return set()  # an enum
    return set(inspect.signature(value).parameters) - {"self", "cls"}


@pytest.mark.parametrize("value", PUBLIC)
def test_what_is_public_says_first_in_one_line_what_it_is(value):
    first, _, rest = inspect.getdoc(value).partition("\n")

    assert value.__doc__  # of its own: not that of a base class
    assert first.endswith((".", ":"))
    assert not rest or rest.startswith("\n")


@pytest.mark.parametrize("value", CALLED)
def test_what_is_called_explains_each_parameter(value):
    doc = inspect.getdoc(value)
    sections = "".join(re.findall(FIELDS, f"{doc}\n", re.MULTILINE))
    explained = set(re.findall(ENTRY, sections, re.MULTILINE)) | set(
        re.findall(r"(?<!\*)\*(\w+)\*(?!\*)", doc)
    )

    assert parameters(value) <= explained


@pytest.mark.parametrize("value", CALLED)
def test_what_is_called_with_something_has_an_example(value):
    assert not parameters(value) or ">>> " in inspect.getdoc(value)
