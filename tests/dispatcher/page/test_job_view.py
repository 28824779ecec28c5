"""What is shown of a pass is what the status call and `explain` say of it."""

from dataclasses import asdict, replace

from penstock.explanation.verdict import explain_job
from penstock.protocol.measures import OperatorFigures
from penstock_dispatcher.page.job_view import job_view
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked


def test_the_sentence_and_the_number_are_those_of_explain():
    _, moment = looked(scenes.slow_map, 5)
    (it,) = moment.stats.iterations

    view = job_view(it, moment)

    told = explain_job(moment.looks[it.iteration])
    assert view.sentence == told.sentence
    assert (view.limit, view.operator) == ("workers", "map(decode)")
    assert view.wait == told.wait
    assert view.more_slots == told.more_slots > 0


def test_the_account_is_that_of_the_status_call():
    _, moment = looked(scenes.unbalanced, 5)
    over = moment.stats.iterations[1]

    balance = asdict(job_view(over, moment).balance)

    known = asdict(over.account)
    assert balance.pop("faults") == over.faults
    assert over.faults
    assert balance == {name: known[name] for name in balance}


def test_operators_come_by_their_time():
    _, moment = looked(scenes.healthy, 5)
    (it,) = moment.stats.iterations

    operators = job_view(it, moment).operators

    assert [(one.label, one.worked) for one in operators] == list(scenes.OPERATORS.items())


def test_tasks_are_counted_by_how_they_are():
    _, moment = looked(scenes.healthy, 5)
    (it,) = moment.stats.iterations
    first, second, third, *others = it.tasks
    tasks = (
        replace(first, done=True, worker=None),
        replace(second, worker=None),
        replace(third, failure="ValueError: no\nTraceback"),
        *others,
    )

    view = job_view(replace(it, tasks=tasks), moment)

    counts = view.tasks
    assert (counts.running, counts.waiting, counts.done, counts.failed) == (5, 1, 1, 1)
    assert view.troubles == ("ValueError: no",)


def test_what_operators_made_is_in_words():
    _, moment = looked(scenes.healthy, 5)
    (it,) = moment.stats.iterations
    packs = OperatorFigures("pack", "tokens", 900, 45.0, padding_share=0.1)

    view = job_view(replace(it, figures=(packs,)), moment)

    assert view.figures == ("pack: 900 tokens; 45 tokens a second; 10.0 % padding",)
