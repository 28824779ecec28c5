"""Counts and versions in words."""

import pytest

from penstock.protocol.types import PROTOCOL, Versions
from penstock_cluster.cli.grid import counted, spoken


@pytest.mark.parametrize(
    ("number", "nouns", "said"),
    [
        (1, ("pass", "passes"), "1 pass"),
        (2, ("pass", "passes"), "2 passes"),
        (0, ("worker",), "0 workers"),
        (1200, ("worker",), "1,200 workers"),
    ],
)
def test_a_number_has_its_noun(number, nouns, said):
    assert counted(number, *nouns) == said


def test_what_a_process_runs_is_said_where_it_is_known():
    assert spoken(Versions(PROTOCOL, "3.11.2", "0.1.0")) == "penstock 0.1.0, Python 3.11.2"
    assert spoken(None) == ""
