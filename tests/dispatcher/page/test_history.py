"""What is seen of the mesh, one look after the other, and what is told of the time between."""

from dataclasses import replace

import pytest

from penstock_dispatcher.fact_log import Notice, NoticeKind
from penstock_dispatcher.page.history import LINES_KEPT, LONGEST, NOTICES_KEPT, History
from tests.dispatcher.page import scenes, troubled_scenes
from tests.dispatcher.page.looking import looked

EARLIER = "earlier events are only in its log"


def told(history):
    return [(one.notice.kind, one.notice.words) for one in history.notices]


def test_rates_are_those_of_the_counters():
    _, moment = looked(scenes.healthy, 10)

    (it,) = moment.stats.iterations
    rate = sum(moment.by_task.values())
    assert moment.samples[it.iteration].elements == pytest.approx(416, rel=0.01)
    assert rate == pytest.approx(416, rel=0.1)
    assert sum(moment.by_worker.values()) == pytest.approx(rate, rel=0.01)


def test_a_drain_a_requeue_and_a_lost_runner_are_told_once():
    def scene(t):
        stats = scenes.lost_and_drained(t)
        first, *others = stats.workers
        lost = {**first.stats, "runners_lost": 2 if t > 30 else 1}
        return replace(stats, workers=(replace(first, stats=lost), *others))

    history, _ = looked(scene, 60)

    assert told(history)[1:] == [
        (NoticeKind.DRAIN, "worker worker-3.local:7001 drains"),
        (NoticeKind.LOST, "a runner ended unasked on worker worker-0.local:7001"),
        (NoticeKind.REQUEUED, "64 elements of job imagenet were requeued"),
    ]


@pytest.mark.parametrize(
    ("restarted", "kind", "words"),
    [
        (False, NoticeKind.STARTED, "the dispatcher started"),
        (
            True,
            NoticeKind.RESTARTED,
            f"the dispatcher restarted and continues 1 running job; {EARLIER}",
        ),
    ],
)
def test_the_first_that_is_told_is_how_the_dispatcher_began(restarted, kind, words):
    history, _ = looked(lambda t: replace(scenes.healthy(t), restarted=restarted), 3)

    (only,) = history.notices
    assert (only.notice.kind, only.notice.words) == (kind, words)
    (line,) = history.lines.values()
    assert only.at == line.columns()["at"][0]


def test_where_nobody_tells_of_facts_they_are_seen_in_the_difference():
    def scene(t):
        if t == 0:
            return scenes.empty(t)
        return scenes.lost_and_drained(t) if t < 50 else scenes.unbalanced(t)

    history, _ = looked(scene, 50, History(hears_facts=False))

    said = told(history)
    assert (NoticeKind.JOINED, "worker worker-2.local:7001 registered") in said
    assert (NoticeKind.OPENED, "job imagenet (repetition 1) begins") in said
    assert (NoticeKind.LEFT, "worker worker-3.local:7001 is gone") in said
    assert said.count((NoticeKind.JOINED, "worker worker-3.local:7001 registered")) == 2


def test_an_account_that_does_not_balance_is_told_when_its_pass_is_over():
    def scene(t):
        return scenes.unbalanced(t) if t >= 3 else scenes.healthy(t)

    history, _ = looked(scene, 6)

    _, second = told(history)
    assert second == (
        NoticeKind.UNBALANCED,
        "the account of job nightly eval does not balance: 50000 of 50012 elements were acked",
    )


def test_what_is_kept_has_a_bound():
    history = History()
    for i in range(NOTICES_KEPT + 50):
        history.tell(Notice(NoticeKind.JOINED, "x" * 2 * LONGEST), float(i))

    def scene(t):
        one = scenes.healthy(t)
        (it,) = one.iterations
        return replace(one, iterations=(replace(it, iteration=int(t)),))

    looked(scene, 2 * LINES_KEPT, history)

    assert len(history.notices) == NOTICES_KEPT
    assert max(len(one.notice.words) for one in history.notices) == LONGEST
    assert len(history.lines) == LINES_KEPT
    assert list(history.lines)[-1] == 2 * LINES_KEPT


def test_the_line_of_a_pass_that_is_over_stays():
    history, _ = looked(scenes.healthy, 5)
    looked(scenes.empty, 8, history, first=6)

    assert [len(line.columns()["at"]) for line in history.lines.values()] == [6]


def test_readers_that_expire_are_told_once_where_nobody_tells_of_facts():
    history, _ = looked(troubled_scenes.trainers_gone, 100, History(hears_facts=False))

    lost = [words for kind, words in told(history) if kind is NoticeKind.LOST]
    assert lost == ["31 readers expired: they read job imagenet (repetition 1)"]
