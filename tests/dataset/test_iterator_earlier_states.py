"""States that earlier trees took of pipelines in one process are restored by this one.

`saved_states.json` holds states of version 1, and what is left behind each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.dataset.saved_pipelines import PIPELINES, write_files

SAVED: dict[str, Any] = json.loads((Path(__file__).parent / "saved_states.json").read_text())


def plain(element: Any) -> Any:
    """Return *element* as JSON can hold it."""
    match element:
        case dict():
            return {key: plain(part) for key, part in element.items()}
        case tuple() | list():
            return [plain(part) for part in element]
        case bytes():
            return element.decode("latin-1")
        case np.ndarray() | np.generic():
            return element.tolist()
        case _:
            return element


def test_every_pipeline_has_a_state_of_an_earlier_tree() -> None:
    assert set(SAVED) == set(PIPELINES)
    assert {saved["state"]["v"] for saved in SAVED.values()} == {1}


@pytest.mark.quick(29)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_state_of_an_earlier_tree_goes_on_where_it_was_taken(name: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    saved = SAVED[name]
    with PIPELINES[name](tmp_path).iterator(state=saved["state"]) as rest:
        assert [plain(element) for element in rest] == saved["rest"]
