"""The sequence of a mixture whose weights changed, and who asks for changes of them."""

from itertools import islice

import pytest

from chaos.draws import draw
from chaos.mesh import NOWHERE, Reader
from chaos.plan import DYNAMIC, Kind, Rounds
from chaos.trainer import upstream
from chaos.weights import CHOICES, FIRST, PIPELINE, Changes, places, record_in
from penstock.errors import DatasetError, StoreFull

SPEC = {"pipeline": PIPELINE, "elements": 300, "delay": 0.0, "greedy": "", "payload": 0}


def shown(*changes):
    """Return a mixture as a dispatcher shows it."""
    whole = [(begin, [round(part / sum(parts), 6) for part in parts]) for begin, parts in changes]
    return {"spans": [{"begin": begin, "wanted": wanted} for begin, wanted in whole]}


@pytest.fixture
def made():
    """Make changes that are answered by these turns or errors; close them at the end."""
    all_made = []

    def made(*answers):
        rest = iter(answers)

        def change(weights):
            answer = next(rest)
            if isinstance(answer, Exception):
                raise answer
            return answer

        changes = Changes(change)
        all_made.append(changes)
        return changes

    yield made
    for changes in all_made:
        changes.settle(20.0)


def test_without_a_change_places_are_those_of_the_pipeline():
    ids = [int(i) for i in upstream(SPEC)]

    assert places(300, {}) == {number: place for place, number in enumerate(ids)}


def test_a_change_moves_only_what_comes_after_it():
    plain, changed = places(300, {}), places(300, {100: (1, 3)})

    assert list(changed)[:100] == list(plain)[:100]
    assert sum(number < 300 for number in islice(changed, 100, None)) == 50


def test_changes_are_asked_for_one_after_another_and_are_on_record(made):
    changes = made(40, 90)
    changes.ask(0)
    changes.ask(1)
    changes.settle(20.0)

    assert changes.record == {40: CHOICES[0], 90: CHOICES[1]}
    assert not changes.problems


def test_a_change_for_the_next_pass_is_on_no_record(made):
    changes = made(0)
    changes.ask(0)
    changes.settle(20.0)

    assert not changes.record


def test_a_change_is_asked_for_again_when_there_is_no_room_for_it(made):
    changes = made(StoreFull("no room"), 40)
    changes.ask(0)
    changes.settle(20.0)

    assert changes.record == {40: CHOICES[0]}
    assert not changes.problems


def test_a_change_that_is_refused_is_a_problem(made):
    changes = made(DatasetError("there is no such source"))
    changes.ask(0)
    changes.settle(20.0)

    assert changes.problems == ["weights (1, 3) are refused: there is no such source"]


def test_a_change_whose_answer_was_lost_is_on_record_when_it_is_shown(made):
    changes = made()
    changes.look(shown((0, FIRST), (40, (5, 1))), 0)

    assert changes.record == {40: (5, 1)}


def test_what_was_shown_before_an_answer_is_not_taken_over(made):
    changes = made(40)
    changes.ask(0)
    changes.settle(20.0)
    changes.look(shown((0, FIRST)), 0)

    assert changes.record == {40: CHOICES[0]}


def test_a_change_that_was_confirmed_and_is_not_shown_is_a_problem(made):
    changes = made(40)
    changes.ask(0)
    changes.settle(20.0)
    changes.look(shown((0, FIRST)), 1)

    assert changes.problems == ["changes at turns [40] were confirmed, and are lost"]


def test_a_saved_state_has_the_changes_before_it():
    provider = {"changes": [{"begin": 40, "parts": [5, 1], "before": [20, 20]}]}
    state = {"jobs": {"": [{"state": {"providers": [provider]}}]}}

    assert record_in(state) == {40: (5, 1)}
    assert record_in({"jobs": {"": [{"state": {"providers": []}}]}}) == {}


def test_what_a_reader_took_is_told_by_its_place(tmp_path):
    log = tmp_path / "log"
    log.write_text(
        "".join(f"{kind}{number:010}\n" for kind, number in [("t", 7), ("s", 7), ("t", 9)])
    )
    reader = Reader(None, None, log)
    reader.renumber({7: 0})

    assert reader.records() == [("t", 0), ("s", 7), ("t", NOWHERE)]


def test_plans_change_weights_in_one_order_and_in_rounds():
    plans = [draw("weighed", seed) for seed in range(100)]
    faults = [[fault for life in plan.lives for fault in life.faults] for plan in plans]

    assert {(plan.mode, plan.pipeline) for plan in plans} == {(DYNAMIC, PIPELINE)}
    assert all(any(fault.kind is Kind.SET_WEIGHTS for fault in some) for some in faults)
    assert 20 < sum(isinstance(plan.sharing, Rounds) for plan in plans) < 50
    assert any(len(plan.lives) > 1 for plan in plans)
