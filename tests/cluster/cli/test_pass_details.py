"""All of a pass: its tasks and readers, on a screen those first that need a look."""

from dataclasses import replace

from rich.console import Group

from penstock.protocol.measures import OperatorFigures
from penstock_cluster.cli.look import Look
from penstock_cluster.cli.pass_details import pass_details
from tests.cluster.cli.shown import shown
from tests.dispatcher.page import scenes


def details(most):
    workers, one = scenes.a_job(5.0, 0.01, count=20, per_worker=1, hosts=12)
    tasks = (*one.tasks[:15], replace(one.tasks[15], worker=None), *one.tasks[16:])
    readers = (*one.readers[:9], replace(one.readers[9], silent=8.0), *one.readers[10:])
    one = replace(one, tasks=tasks, readers=readers)
    seen = Look("d:1", 0, 0, scenes.mesh(workers, [one]))
    return shown(Group(*pass_details(one, seen, most)), width=120)


def test_all_tasks_and_readers_are_shown_if_all_are_asked_for():
    text = details(None)

    assert text.count("worker-") == 19
    assert text.count(": live, ") == 11
    assert "--all" not in text


def test_those_that_are_left_out_are_counted_and_need_no_look():
    text = details(4)

    assert "waits for a worker" in text
    assert "silent for 8.0 s" in text
    assert text.count(": live, ") == 3
    assert "16 more tasks: --all shows them" in text
    assert "8 more readers: --all shows them" in text


def test_what_operators_made_is_a_line_for_each():
    _, one = scenes.a_job(5.0, 0.01)
    one = replace(one, figures=(OperatorFigures("pack", "tokens", 900, 45.0, 0.1),))
    seen = Look("d:1", 0, 0, scenes.mesh((), [one]))

    text = shown(Group(*pass_details(one, seen, None)), width=120)

    assert "pack: 900 tokens; 45 tokens a second; 10.0 % padding" in text
