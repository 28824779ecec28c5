"""Ctrl-C and alarms, at any moment of a loop: it goes on, and each element comes once."""

import gc

import pytest

from tests.interrupts.count import interrupted
from tests.interrupts.loops import LOOPS
from tests.interrupts.strikes import Source

QUICK = {("local map", Source.SIGINT), ("local prefetch", Source.ALARM)}

CLUSTERS = pytest.mark.xdist_group("clusters")  # the process that has them

CASES = [
    pytest.param(
        name,
        source,
        marks=[
            *([] if (name, source) in QUICK else [pytest.mark.slow]),
            *([CLUSTERS] if loop.distributed else []),
        ],
    )
    for name, loop in LOOPS.items()
    for source in Source
]


@pytest.fixture(autouse=True)
def _nothing_else_is_struck():
    """Leave no iterator of another test to the collector, and Hypothesis no callback of it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "source"), CASES)
def test_a_loop_that_is_interrupted_again_and_again_gets_each_element_once(name, source, request):
    loop = LOOPS[name]
    target = request.getfixturevalue("cluster").target if loop.distributed else ""

    found = interrupted(loop, target, source, interrupts=30, seed=1)

    assert found.errors == ()
    assert (found.lost, found.repeated) == (0, 0)
    assert found.interrupts >= 30


def test_a_distributed_loop_that_is_interrupted_gets_each_element_once(cluster):
    found = interrupted(LOOPS["coordinated"], cluster.target, Source.SIGINT, interrupts=5, seed=2)

    assert found.errors == ()
    assert (found.lost, found.repeated) == (0, 0)
