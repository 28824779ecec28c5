"""Docstrings of what is public say what a caller needs, and their examples are true."""

import doctest
import importlib

import numpy as np
import pytest

import penstock

MODULES = [
    "penstock.analysis.element_spec",
    "penstock.analysis.visitation",
    "penstock.dataset.dataset",
    "penstock.dataset.elementwise",
    "penstock.dataset.file_sources",
    "penstock.dataset.iterator",
    "penstock.dataset.regrouping",
    "penstock.dataset.sources",
    "penstock.errors",
    "penstock.graph.dataset_base",
    "penstock.options",
    "penstock.protocol.types",
    "penstock.reader.distribute",
    "penstock.runtime.background",
    "penstock.service",
    "penstock_cluster.local",
    "penstock_cluster.member",
    "penstock_dispatcher.config",
    "penstock_dispatcher.server",
    "penstock_worker.config",
    "penstock_worker.server",
]
NAMES = {
    "np": np,
    "penstock": penstock,
    **{name: getattr(penstock, name) for name in penstock.__all__},
}


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in MODULES:
        for test in finder.find(importlib.import_module(module), extraglobs=NAMES):
            if test.examples:
                yield pytest.param(test, id=test.name)


@pytest.mark.parametrize("test", list(examples()))
def test_the_example_shows_what_happens(test, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)

    failed = runner.run(test, out=said.append).failed

    assert not failed, "".join(said)
