"""The shares of a mixture as tables, as `penstock weights` and `penstock status` show them."""

from dataclasses import replace

import pytest
from rich.console import Group

from penstock.errors import VersionMismatch
from penstock_cluster.cli.mixture_details import mixture_details, shares_of_turns
from tests.cluster.cli.shown import shown
from tests.dispatcher.page import scenes


def details(spans=2):
    one = scenes.mixed(5.0).iterations[0]
    (mixture,) = one.mixtures
    one = replace(one, mixtures=(replace(mixture, spans=mixture.spans[:spans]),))
    return shown(Group(*mixture_details(one)), width=120)


def test_wanted_and_real_shares_stand_side_by_side():
    text = details()

    assert "tasks have the turns before 1,000" in text
    assert "700 (70.0 %)" in text
    assert "350 (70.0 %)" in text
    assert "1,600" in text
    assert "never" in text
    assert "endless" in text


def test_each_change_has_its_line_with_what_was_handed_out_since():
    text = details()

    assert "70.0 % / 70.0 %" in text
    assert "50.0 % / -" in text


def test_a_mixture_whose_weights_did_not_change_has_one_table():
    assert "from turn" not in details(spans=1)


def test_a_job_without_a_mixture_has_no_tables():
    _, one = scenes.a_job(5.0, 0.01)

    assert not list(mixture_details(one))


def test_a_dispatcher_that_does_not_tell_its_plan_is_named():
    (mixture,) = scenes.mixed(5.0).iterations[0].mixtures

    with pytest.raises(VersionMismatch, match="of an older version"):
        list(shares_of_turns(mixture, 0, 5))
