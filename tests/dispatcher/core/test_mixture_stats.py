"""What status says of a mixture: wanted and real shares, passes, and when a source begins again."""

import pytest

from penstock.protocol.mixture import WeightStage
from penstock.protocol.turns import Turns
from penstock_dispatcher.core import mixture_stats
from penstock_dispatcher.core.mixture_stats import SPANS
from tests.dispatcher.core.mixed import Mixed, outline

SIZED = {"sizes": (30, 1000), "stages": (WeightStage(0, (1, 4)),)}


def stats(job):
    (found,) = job.stats.mixtures
    return found


def test_shares_that_are_wanted_and_handed_out_are_shown_by_source():
    job = Mixed(outline(**SIZED))
    web, code = stats(job).sources

    assert (web.name, web.wanted, web.handed, web.size) == ("web", 0.2, job.next_turn // 5, 30)
    assert (code.name, code.wanted, code.handed) == ("code", 0.8, job.next_turn * 4 // 5)
    assert stats(job).turn == job.next_turn


def test_elements_count_as_acked_when_all_of_their_split_is():
    job = Mixed(outline(**SIZED))
    assert [one.acked for one in stats(job).sources] == [0, 0]

    job.finishes_first()

    assert [one.acked for one in stats(job).sources] == [2, 8]


def test_the_turn_at_which_a_source_begins_again_is_that_by_the_weights_that_hold():
    job = Mixed(outline(**SIZED))
    first = stats(job).sources[0].repeats_at
    assert 145 < first < 155

    job.sets(web=1)
    web = stats(job).sources[0]

    assert web.repeats_at == job.next_turn + 30 - web.handed
    assert stats(job).sources[1].repeats_at is None
    while stats(job).turn < 60:
        job.finishes_first()
    assert stats(job).sources[0].passes == 1


def test_each_change_has_its_own_span():
    job = Mixed(outline(length=200))
    first = job.sets(web=3, code=1)
    job.finishes_first()
    job.sets(at=100, code=1)
    spans = stats(job).spans

    assert [(span.begin, span.end) for span in spans] == [(0, first), (first, 100), (100, None)]
    assert [span.wanted for span in spans] == [(0.5, 0.5), (0.75, 0.25), (0, 1)]
    assert sum(spans[0].handed) == first
    assert sum(map(sum, (span.handed for span in spans))) == job.next_turn
    assert spans[2].handed == (0, 0)


def test_only_the_newest_spans_are_counted_by_themselves():
    job = Mixed()
    for n in range(SPANS + 3):
        job.sets(at=100 + n, web=1, code=2 + n % 2)

    assert len(stats(job).spans) == SPANS
    assert stats(job).spans[-1].begin == 100 + SPANS + 2


def test_a_pass_whose_turns_are_all_granted_shows_all_of_them():
    job = Mixed(outline(length=40))
    while job.next_turn:
        job.finishes_first()

    assert stats(job).turn == 40
    assert [one.handed for one in stats(job).sources] == [20, 20]


def test_a_pass_that_is_over_has_no_figures_of_mixtures():
    job = Mixed(outline(length=40))
    while job.tasks:
        job.finishes_first()

    assert job.stats.mixtures == ()


@pytest.mark.parametrize("passes", [1, 2])
def test_each_pass_of_a_repeat_counts_by_itself(passes):
    job = Mixed(outline(length=40), passes=passes)
    for _ in range(3):
        job.finishes_first()

    assert stats(job).pass_number == passes - 1
    assert sum(one.handed for one in stats(job).sources) == (40 if passes == 1 else job.next_turn)
    assert 0 <= sum(one.acked for one in stats(job).sources) <= 40


def test_the_plan_tells_which_source_any_turn_takes(monkeypatch):
    job = Mixed(outline(**SIZED))
    changes = [job.sets(at=at, web=at, code=100) for at in (200, 300, 400)]
    known = job.stats.mixtures[0].plan
    turns = Turns(known.stages, (30, 1000), known.stop, known.max_epochs, known.seed)
    assert [each.begin for each in known.stages] == [0, *changes]

    monkeypatch.setattr(mixture_stats, "STAGES", 2)
    newest = job.stats.mixtures[0].plan
    assert [each.begin for each in newest.stages] == [300, 400]
    later = Turns(newest.stages, (30, 1000), newest.stop, newest.max_epochs, newest.seed)
    assert [later.counts(at) for at in (300, 399, 450)] == [
        turns.counts(at) for at in (300, 399, 450)
    ]
