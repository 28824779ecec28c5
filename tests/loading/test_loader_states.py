"""What is saved of a loader is plain JSON, and anything else is refused with what it is."""

import json

import pytest

from penstock.errors import StateError
from penstock.loading.loader import LoaderState


@pytest.mark.parametrize(
    "state", [LoaderState(), LoaderState(3, 7, position={"v": 1}), LoaderState(1, 5, finished=True)]
)
def test_a_state_comes_back_from_json(state):
    assert LoaderState.of(json.loads(json.dumps(state.plain()))) == state


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        {},
        [],
        "x",
        {**LoaderState().plain(), "epoch": -1},
        {**LoaderState().plain(), "steps": "1"},
    ],
)
def test_what_is_no_state_is_refused(damaged):
    with pytest.raises(StateError, match="not a state of a loader"):
        LoaderState.of(damaged)


def test_a_state_of_a_later_version_is_refused_by_its_number():
    with pytest.raises(StateError, match="version 2; this Penstock reads version 1"):
        LoaderState.of({**LoaderState().plain(), "version": 2})
