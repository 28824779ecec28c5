"""Random pipelines of all operators, against plain Python, restored at every position.

A few, always the same, run with the suite. ``make pipelines PIPELINES=10000`` runs as many as you
like, other ones each time; SEED=n draws those of a certain run. What fails is shrunk, and shown as
the shortest pipeline that does. Operators that let elements overtake each other are left out: their
order is nobody's, and their own tests count their elements.
"""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.graph.node import OPERATORS
from penstock.graph.traversal import walk
from pipelines.elementwise import ELEMENTWISE, fussy
from pipelines.joins import JOINS
from pipelines.nesting import NESTING, interleaved
from pipelines.regrouping import REGROUPING
from pipelines.sources import SOURCES
from pipelines.stage import Pipeline, threads

LIMIT = 40
"""No pipeline is read further than this."""

PIPELINES = int(os.environ.get("PIPELINES", "0"))
"""How many in all, if not those of the suite."""

NOT_MODELLED = {
    "window elements": "it exists only inside a run, and takes part in window and group_by_window",
    "load": "its elements are in files that tests of saved datasets write",
    "follow": "it waits for a process that saves",
    "snapshot": "it writes files, which its own tests read",
    "write_chunks": "its receipts name files, and are others each time",
    "array_records": "each file starts threads of its own: a thousand pipelines would take minutes",
}


def counted(n):
    return Pipeline(f"range({n})", lambda: Dataset.range(n), list(range(n)))


STAGES = {**ELEMENTWISE, **REGROUPING, **NESTING}
stages = st.one_of(*STAGES.values())
sources = st.one_of(*SOURCES.values())


@st.composite
def lines(draw, most):
    pipeline = draw(sources)
    for stage in draw(st.lists(stages, max_size=most)):
        pipeline = pipeline.then(stage)
    return pipeline


@st.composite
def pipelines(draw):
    pipeline = draw(lines(3))
    join = draw(st.none() | st.one_of(*JOINS.values()))
    if join is not None:
        right = draw(lines(2))
        pipeline = join.of(pipeline, right) if draw(st.booleans()) else join.of(right, pipeline)
    for stage in draw(st.lists(stages, max_size=3)):
        pipeline = pipeline.then(stage)
    return pipeline


def patient(suite, share):
    """Return settings for so many pipelines in the *suite*, and a *share* of all in a long run."""
    return settings(
        max_examples=int(PIPELINES * share) or suite,
        derandomize=not PIPELINES,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        print_blob=True,
    )


def checked(check_states, pipeline):
    expected = None if pipeline.elements is None else pipeline.elements[:LIMIT]
    event(f"checked against plain Python: {expected is not None}")
    check_states(pipeline.make, expected, limit=LIMIT, blocks=(1, 3, 64), max_state=20_000)


@pytest.mark.slow
@patient(20, 0.7)
@given(pipeline=pipelines())
def test_a_random_pipeline_gives_what_plain_python_gives_from_every_state(check_states, pipeline):
    checked(check_states, pipeline)


@pytest.mark.slow
@patient(14, 0.2)
@given(pipeline=lines(3), k=st.integers(3, 6), calls=threads, after=st.lists(stages, max_size=2))
def test_a_random_pipeline_with_errors_goes_on_exactly_behind_them(
    check_states, pipeline, k, calls, after
):
    def make():
        dataset = pipeline.make().map(fussy(k), calls)
        for stage in after:
            dataset = stage.apply(dataset)
        return dataset

    check_states(make, limit=LIMIT, blocks=(1, 3, 64), max_state=20_000)


@st.composite
def split_logs(draw):
    """Some passes over 12 units, of which the task gets a part; and then many of one unit."""
    log = []
    for cuts in draw(st.lists(st.lists(st.integers(0, 12), max_size=6), max_size=4)):
        cuts = sorted(set(cuts))
        log += zip(cuts[::2], cuts[1::2])
        log.append(None)
    return log + [(0, 1), None] * 200


@pytest.mark.slow
@patient(10, 0.1)
@given(
    source=st.sampled_from([lambda: Dataset.range(12), lambda: Dataset.from_sequence(range(12))]),
    before=st.lists(stages, max_size=4),
    log=split_logs(),
)
def test_a_random_pipeline_reads_on_in_its_split_log_from_every_state(
    check_states, source, before, log
):
    def make():
        dataset = source()
        for stage in before:
            dataset = stage.apply(dataset)
        return dataset

    # Others, such as what a stage lets follow, read all that they have.
    path = next(path for path, node in walk(make().node) if node.op in ("range", "from_sequence"))

    check_states(make, limit=LIMIT, blocks=(1, 3, 64), logs=[log], streams={path: 0})


@pytest.mark.quick(2)
@pytest.mark.parametrize("op", [*SOURCES, *STAGES, *JOINS])
def test_each_operator_takes_part(check_states, op):
    @settings(patient(4, 0), derandomize=True)
    @given(data=st.data())
    def check(data):
        pipeline = data.draw(SOURCES[op]) if op in SOURCES else counted(8 if op in NESTING else 20)
        if op in STAGES:
            pipeline = pipeline.then(data.draw(STAGES[op]))
        elif op in JOINS:
            pipeline = data.draw(JOINS[op]).of(counted(9), counted(7))

        checked(check_states, pipeline)
        assert op in {node.op for _, node in walk(pipeline.make().node)}

    check()


def test_no_operator_is_forgotten():
    modelled = {*SOURCES, *STAGES, *JOINS}

    # What is no operator of this process has tests of its own: tests/service, tests/mesh.
    assert modelled | NOT_MODELLED.keys() == OPERATORS.keys() - {"distribute"}
    assert not modelled & NOT_MODELLED.keys()


@pytest.mark.parametrize("cycle", [1, 2, 3, 7])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_model_of_interleave_knows_the_order_of_the_reference(cycle, length):
    # From the documentation of tf.data: five inputs of six, cycle_length=2, block_length=4.
    assert interleaved(range(1, 6), lambda x: [x] * 6, 2, 4) == list(
        itertools.chain(
            [1] * 4, [2] * 4, [1] * 2, [2] * 2, [3] * 4, [4] * 4, [3] * 2, [4] * 2, [5] * 4, [5] * 2
        )
    )
    elements = interleaved(range(9), lambda x: list(range(x)), cycle, length)
    assert sorted(elements) == sorted(y for x in range(9) for y in range(x))
