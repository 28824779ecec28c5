"""Tables that fit the screen."""

import pytest

from penstock_cluster.cli.grid import Grid
from tests.cluster.cli.shown import shown

ADDRESS = "worker-3.some-namespace.svc.cluster.local:7001"


@pytest.fixture
def grid():
    columns = [
        "address",
        "why~",
        "first-",
        "last-",
    ]
    return Grid(columns, [(ADDRESS, "some longer words about it", "[bold]1", "2")])


def test_with_room_for_all_every_column_is_there_and_names_are_no_markup(grid):
    out = shown(grid, width=160)

    assert all(word in out for word in (ADDRESS, "some longer words about it", "[bold]1", "last"))


def test_the_last_of_the_columns_that_may_leave_leaves_first(grid):
    out = shown(grid, width=92)

    assert "last" not in out
    assert "first" in out


@pytest.mark.parametrize("width", [68, 74])
def test_words_are_wrapped_and_an_address_is_whole(grid, width):
    out = shown(grid, width=width)

    assert ADDRESS in out
    assert "some longer words about it" not in out
    assert "words" in out
    assert max(map(len, out.splitlines())) <= width
