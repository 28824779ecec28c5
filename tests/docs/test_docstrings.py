"""The examples in public docstrings are true."""

import doctest
import importlib

import numpy as np
import pytest

import penstock
from penstock.dataset.dataset import Dataset

MODULES = [
    "penstock.dataset.dataset",
    "penstock.dataset.elementwise",
    "penstock.dataset.regrouping",
    "penstock.dataset.sources",
    "penstock.dataset.iterator",
    "penstock.reader.distribute",
    "penstock_cluster.local",
    "penstock_dispatcher.server",
    "penstock_worker.server",
]


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = {"Dataset": Dataset, "np": np, "penstock": penstock}
    for module in MODULES:
        for test in finder.find(importlib.import_module(module), extraglobs=names):
            if test.examples:
                yield pytest.param(test, id=test.name)


@pytest.mark.parametrize("test", list(examples()))
def test_the_example_shows_what_happens(test):
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)

    failed = runner.run(test, out=said.append).failed

    assert not failed, "".join(said)
