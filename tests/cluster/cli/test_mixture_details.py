"""The shares of a mixture as tables, as `penstock weights` and `penstock status` show them."""

from dataclasses import replace

from rich.console import Group

from penstock_cluster.cli.mixture_details import mixture_details
from penstock_dispatcher.core.stats import MixtureSourceStats, MixtureSpan, MixtureStats
from tests.cluster.cli.shown import shown
from tests.dispatcher.page import scenes

SOURCES = (
    MixtureSourceStats("web", 0.5, 700, 350, 1000, 0, 1600),
    MixtureSourceStats("code", 0.5, 300, 150, None, 0, None),
)
SPANS = (MixtureSpan(0, 1000, (0.7, 0.3), (700, 300)), MixtureSpan(1000, None, (0.5, 0.5), (0, 0)))


def details(mixture):
    _, one = scenes.a_job(5.0, 0.01)
    return shown(Group(*mixture_details(replace(one, mixtures=(mixture,)))), width=120)


def test_wanted_and_real_shares_stand_side_by_side():
    text = details(MixtureStats(0, 1000, SOURCES, SPANS))

    assert "tasks have the turns before 1,000" in text
    assert "700 (70.0 %)" in text
    assert "350 (70.0 %)" in text
    assert "1,600" in text
    assert "never" in text
    assert "endless" in text


def test_each_change_has_its_line_with_what_was_handed_out_since():
    text = details(MixtureStats(0, 1000, SOURCES, SPANS))

    assert "70.0 % / 70.0 %" in text
    assert "50.0 % / -" in text


def test_a_mixture_whose_weights_did_not_change_has_one_table():
    assert "from turn" not in details(MixtureStats(0, 1000, SOURCES, SPANS[:1]))


def test_a_job_without_a_mixture_has_no_tables():
    _, one = scenes.a_job(5.0, 0.01)

    assert not list(mixture_details(one))
